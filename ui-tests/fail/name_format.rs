use leader::Tenure;

#[leader::work(format!("job-{}", 7))]
async fn job(_tenure: Tenure) {}

fn main() {}
