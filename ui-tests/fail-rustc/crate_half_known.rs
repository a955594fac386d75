use leader::Tenure;

mod facade {}

#[leader::work("job", crate = crate::facade::boss)]
async fn job(_tenure: Tenure) {}

fn main() {}
