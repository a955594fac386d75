use leader::Tenure;

#[leader::work("job\n")]
async fn job(_tenure: Tenure) {}

fn main() {}
