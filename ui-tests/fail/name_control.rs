use leader::Tenure;

#[leader::work("j\0b")]
async fn job(_tenure: Tenure) {}

fn main() {}
