use leader::Tenure;

#[leader::work("j\u{7f}b")]
async fn job(_tenure: Tenure) {}

fn main() {}
