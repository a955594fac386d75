struct Job(*const u8);

#[leader::work("job")]
unsafe impl Send for Job {}

fn main() {
    let _ = Job;
}
