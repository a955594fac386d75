use leader::{Tenure, work};

#[work("job")]
#[work("other")]
async fn job(_tenure: Tenure) {}

fn main() {}
