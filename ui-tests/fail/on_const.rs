#[leader::work("job")]
const JOB: u8 = 7;

fn main() {
    let _ = JOB;
}
