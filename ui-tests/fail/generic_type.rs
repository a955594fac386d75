use leader::{State, Tenure};

#[leader::work("job")]
async fn job<T: Clone>(_tenure: Tenure, _state: State<T>) {}

fn main() {}
