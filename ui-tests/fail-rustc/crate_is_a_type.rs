use leader::Tenure;

#[leader::work("job", crate = Tenure)]
async fn job(_tenure: Tenure) {}

fn main() {}
