// errors: 2
use leader::{State, Tenure};

#[leader::work("job")]
async fn job(_state: State<u8>, _tenure: Tenure) {}

fn main() {}
