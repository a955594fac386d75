// errors: 2
use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) {}

#[leader::work("other")]
async fn job(_tenure: Tenure) {}

fn main() {}
