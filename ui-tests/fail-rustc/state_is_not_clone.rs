use leader::{State, Tenure};

pub struct App;

#[leader::work("job")]
async fn job(_tenure: Tenure, _app: State<App>) {}

fn main() {}
