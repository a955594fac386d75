// errors: 6
use leader::Tenure;

#[leader::work("job")]
async unsafe extern "C" fn job(_tenure: Tenure, _more: ...) {}

fn main() {}
