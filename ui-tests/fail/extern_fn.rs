use leader::Tenure;

#[leader::work("job")]
async extern "C" fn job(_tenure: Tenure) {}

fn main() {}
