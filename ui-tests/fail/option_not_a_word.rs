use leader::Tenure;

#[leader::work("job", ..)]
async fn job(_tenure: Tenure) {}

fn main() {}
