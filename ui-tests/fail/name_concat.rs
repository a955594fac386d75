use leader::Tenure;

#[leader::work(concat!("j", "ob"))]
async fn job(_tenure: Tenure) {}

fn main() {}
