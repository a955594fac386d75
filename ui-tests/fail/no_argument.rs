#[leader::work("job")]
async fn job() {}

fn main() {}
