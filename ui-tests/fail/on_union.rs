#[leader::work("job")]
union Job {
    job: u8,
}

fn main() {
    let _ = Job { job: 7 };
}
