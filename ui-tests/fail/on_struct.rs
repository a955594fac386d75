#[leader::work("job")]
struct Job;

fn main() {
    let _ = Job;
}
