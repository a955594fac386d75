#[leader::work("job")]
unsafe extern "C" {}

fn main() {}
