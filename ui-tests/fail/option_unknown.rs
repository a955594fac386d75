use leader::Tenure;

#[leader::work("job", detached = true)]
async fn job(_tenure: Tenure) {}

fn main() {}
