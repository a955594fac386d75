use leader::Tenure;

#[leader::work(" \t")]
async fn job(_tenure: Tenure) {}

fn main() {}
