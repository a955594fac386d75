use leader::Tenure;

#[leader::work(crate::JOB)]
async fn job(_tenure: Tenure) {}

fn main() {}
