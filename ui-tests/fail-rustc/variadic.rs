// errors: 5
use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure, _more: ...) {}

fn main() {}
