use leader::Tenure;

#[leader::work(on_end = "drop")]
async fn job(_tenure: Tenure) {}

fn main() {}
