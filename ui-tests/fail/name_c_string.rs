use leader::Tenure;

#[leader::work(c"job")]
async fn job(_tenure: Tenure) {}

fn main() {}
