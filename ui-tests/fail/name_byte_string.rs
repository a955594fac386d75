use leader::Tenure;

#[leader::work(b"job")]
async fn job(_tenure: Tenure) {}

fn main() {}
