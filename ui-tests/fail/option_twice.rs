use leader::Tenure;

#[leader::work("job", on_end = "drop", on_end = "return")]
async fn job(_tenure: Tenure) {}

fn main() {}
