use leader::Tenure;

#[leader::work("job", crate = leader<u8>)]
async fn job(_tenure: Tenure) {}

fn main() {}
