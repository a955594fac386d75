#[leader::work("job")]
type Job = u8;

fn main() {
    let _: Job = 7;
}
