use leader::Tenure;

#[leader::work("job"s)]
async fn job(_tenure: Tenure) {}

fn main() {}
