use leader::Tenure;

#[leader::work("job")]
async unsafe fn job(_tenure: Tenure) {}

fn main() {}
