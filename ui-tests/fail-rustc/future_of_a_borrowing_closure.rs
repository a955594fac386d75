// A limit of the compiler (rust-lang/rust 139475): `async move` is the way around, see `pass/async_closures.rs`.
use leader::{State, Tenure};

async fn each(numbers: &[u64], put: impl AsyncFn(u64)) {
    for number in numbers {
        put(*number).await;
    }
}

#[leader::work("job")]
async fn job(_tenure: Tenure, State(text): State<String>) {
    each(&[7, 8], async |number| drop((number, text.len()))).await;
}

fn main() {}
