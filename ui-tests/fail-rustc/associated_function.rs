// errors: 2
use leader::Tenure;

struct App;

impl App {
    #[leader::work("job")]
    async fn job(_tenure: Tenure) {}
}

fn main() {
    let _ = App;
}
