use leader::Tenure;

#[leader::work("job", "work")]
async fn job(_tenure: Tenure) {}

fn main() {}
