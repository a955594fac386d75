use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) {
    7.await;
}

fn main() {}
