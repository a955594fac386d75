#[leader::work("job")]
const fn job(_tenure: u8) {}

fn main() {}
