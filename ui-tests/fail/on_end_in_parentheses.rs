use leader::Tenure;

#[leader::work("job", on_end("drop"))]
async fn job(_tenure: Tenure) {}

fn main() {}
