struct App;

impl App {
    #[leader::work("job")]
    async fn job(&self) {}
}

fn main() {
    let _ = App;
}
