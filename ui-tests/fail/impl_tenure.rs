#[leader::work("job")]
async fn job(_tenure: impl Clone) {}

fn main() {}
