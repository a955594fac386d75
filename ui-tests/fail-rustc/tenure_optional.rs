use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Option<Tenure>) {}

fn main() {}
