use leader::{State, Tenure};

#[leader::work("job")]
async fn job(_tenure: Tenure, _state: State<impl Clone>) {}

fn main() {}
