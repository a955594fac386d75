#[leader::work("job")]
static JOB: u8 = 7;

fn main() {
    let _ = JOB;
}
