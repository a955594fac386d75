use leader::Tenure;

trait Job {
    #[leader::work("job")]
    async fn job(_tenure: Tenure);
}

fn main() {
    fn _with(_: impl Job) {}
}
