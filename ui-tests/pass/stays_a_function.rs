use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;

#[leader::work("counts")]
async fn counts(_tenure: Tenure, State(count): State<u8>) -> Result<(), String> {
    Err(format!("counted to {count}"))
}

/// What a test of the application does.
fn call(tenure: Tenure) -> Result<(), String> {
    let future = counts(tenure, State(7));
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nothing to wait for"),
    }
}

async fn on_behalf_of_another(tenure: Tenure) -> Result<(), String> {
    counts(tenure, State(8)).await
}

fn main() {
    let _ = (call, on_behalf_of_another);
    assert_eq!(registered(), [("counts", OnEnd::Return, 1)]);
}
