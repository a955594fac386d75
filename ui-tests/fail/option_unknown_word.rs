use leader::Tenure;

#[leader::work("job", detached)]
async fn job(_tenure: Tenure) {}

fn main() {}
