use leader::Tenure;
use leader::work as replicated;

#[cfg_attr(all(), leader::work("job"))]
#[cfg_attr(all(), replicated("other"))]
async fn r#job(_tenure: Tenure) {}

fn main() {}
