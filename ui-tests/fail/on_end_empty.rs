use leader::Tenure;

#[leader::work("job", on_end =)]
async fn job(_tenure: Tenure) {}

fn main() {}
