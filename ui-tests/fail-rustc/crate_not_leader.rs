use leader::Tenure;

#[leader::work("job", crate = ::std)]
async fn job(_tenure: Tenure) {}

fn main() {}
