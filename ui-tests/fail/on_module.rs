#[leader::work("job")]
mod job {}

fn main() {}
