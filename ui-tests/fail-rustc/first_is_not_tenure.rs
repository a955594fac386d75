#[leader::work("job")]
async fn job(_tenure: u32) {}

fn main() {}
