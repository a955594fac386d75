use leader::Tenure;

#[leader::work("job", crate = 7)]
async fn job(_tenure: Tenure) {}

fn main() {}
