use leader::Tenure;

struct App;

impl App {
    #[leader::work("job")]
    async fn job(_tenure: Tenure) {}
}

// Not this one, in silence.
pub async fn job(_tenure: Tenure) {}

fn main() {
    let _ = App;
}
