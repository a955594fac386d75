use leader::Tenure;

#[leader::work("job")]
#[cfg_attr(all(), leader::work("other"))]
async fn job(_tenure: Tenure) {}

fn main() {}
