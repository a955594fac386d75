use std::cell::Cell;

use leader::{State, Tenure};

#[leader::work("job")]
async fn job(_tenure: Tenure, _app: State<Cell<u8>>) {}

fn main() {}
