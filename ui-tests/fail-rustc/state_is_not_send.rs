// errors: 2
use std::rc::Rc;

use leader::{State, Tenure};

#[leader::work("job")]
async fn job(_tenure: Tenure, _app: State<Rc<u8>>) {}

fn main() {}
