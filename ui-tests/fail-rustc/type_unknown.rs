use leader::{State, Tenure};

#[leader::work("job")]
async fn job(_tenure: Tenure, _app: State<Missing>) {}

fn main() {}
