use leader::Tenure;

#[leader::work("job")]
#[leader::work("other")]
async fn job(_tenure: Tenure) {}

fn main() {}
