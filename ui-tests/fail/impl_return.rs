use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> impl Sized {}

fn main() {}
