use leader::{State, Tenure};

#[leader::work("job")]
async fn job<'a>(_tenure: Tenure, _state: State<&'a str>) {}

fn main() {}
