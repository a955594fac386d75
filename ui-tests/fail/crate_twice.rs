use leader::Tenure;

#[leader::work("job", crate = leader, crate = ::leader)]
async fn job(_tenure: Tenure) {}

fn main() {}
