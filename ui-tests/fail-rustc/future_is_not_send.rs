use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) {
    let count = std::rc::Rc::new(7);
    std::future::ready(()).await;
    drop(count);
}

fn main() {}
