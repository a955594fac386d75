// errors: 2
use leader::{State, Tenure};

pub struct App;

#[leader::work("job")]
async fn job(_tenure: Tenure, _good: State<u8>, _text: String, _app: State<App>) {}

fn main() {}
