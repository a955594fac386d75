use leader::Tenure;

pub trait Job {
    #[leader::work("job")]
    async fn job(_tenure: Tenure) {}
}

fn main() {}
