use leader::Tenure;

#[leader::work(7)]
async fn job(_tenure: Tenure) {}

fn main() {}
