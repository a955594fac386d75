use leader::Tenure;

#[leader::work("job", crate = missing)]
async fn job(_tenure: Tenure) {}

fn main() {}
