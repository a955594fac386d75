use leader::Tenure;

pub trait Job {
    fn job(tenure: Tenure) -> impl Future<Output = ()>;
}

impl Job for u8 {
    #[leader::work("job")]
    async fn job(_tenure: Tenure) {}
}

fn main() {}
