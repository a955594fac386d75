use leader::Tenure;

#[leader::work("job")]
fn job(_tenure: Tenure) {}

fn main() {}
