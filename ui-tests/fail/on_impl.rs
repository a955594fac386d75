struct Job;

#[leader::work("job")]
impl Job {}

fn main() {
    let _ = Job;
}
