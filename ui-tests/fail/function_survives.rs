use leader::{State, Tenure};

#[leader::work("job ")]
pub(crate) async fn job(_tenure: Tenure, State(count): State<u8>) -> u8 {
    count
}

fn call(tenure: Tenure) -> impl Future<Output = u8> {
    job(tenure, State(7))
}

fn main() {
    let _ = call;
}
