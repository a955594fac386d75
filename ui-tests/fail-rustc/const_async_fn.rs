use leader::Tenure;

#[leader::work("job")]
const async fn job(_tenure: Tenure) {}

fn main() {}
