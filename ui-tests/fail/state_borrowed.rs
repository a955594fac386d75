use leader::{State, Tenure};

#[leader::work("job")]
async fn job<'app>(_tenure: Tenure, State(_app): State<&'app [u8]>) {}

fn main() {}
