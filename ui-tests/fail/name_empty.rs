use leader::Tenure;

#[leader::work("")]
async fn job(_tenure: Tenure) {}

fn main() {}
