use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure, _state: impl Clone) {}

fn main() {}
