use leader::{State, Tenure};

#[leader::work("job")]
async fn job<const N: usize>(_tenure: Tenure, _state: State<[u8; N]>) {}

fn main() {}
