use leader::Tenure;

#[leader::work("job", on_end = true)]
async fn job(_tenure: Tenure) {}

fn main() {}
