use leader::Tenure;

#[leader::work("job", crate)]
async fn job(_tenure: Tenure) {}

fn main() {}
