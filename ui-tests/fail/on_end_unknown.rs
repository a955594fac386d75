use leader::Tenure;

#[leader::work("job", on_end = "abort")]
async fn job(_tenure: Tenure) {}

fn main() {}
