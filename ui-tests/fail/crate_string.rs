use leader::Tenure;

#[leader::work("job", crate = "leader")]
async fn job(_tenure: Tenure) {}

fn main() {}
