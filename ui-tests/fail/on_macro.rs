#[leader::work("job")]
macro_rules! job {
    () => {};
}

fn main() {
    job!();
}
