use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure, _app: Vec<u8>) {}

fn main() {}
