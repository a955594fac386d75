use leader::Tenure;

#[leader::work(on_end = "drop", "job")]
async fn job(_tenure: Tenure) {}

fn main() {}
