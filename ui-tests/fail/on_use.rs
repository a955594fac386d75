#[leader::work("job")]
use std::fmt as job;

fn main() {
    let _ = job::Error;
}
