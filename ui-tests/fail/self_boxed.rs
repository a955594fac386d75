use leader::Tenure;

struct App;

impl App {
    #[leader::work("job")]
    async fn job(self: Box<Self>, _tenure: Tenure) {}
}

fn main() {
    let _ = App;
}
