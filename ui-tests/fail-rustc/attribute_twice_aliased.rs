use leader::Tenure;
use leader::work as replicated;

#[replicated("job")]
#[replicated("other")]
async fn job(_tenure: Tenure) {}

fn main() {}
