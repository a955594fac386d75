use leader::Tenure;

#[leader::work(name = "job")]
async fn job(_tenure: Tenure) {}

fn main() {}
