//! Closures that a work hands to a helper. `future_of_a_borrowing_closure` is the form that the compiler cannot judge.

use leader::{Ended, State, Tenure, test_util};
use leader_ui_tests::registered;

#[derive(Clone)]
struct Log;

impl Log {
    async fn put(&self, number: u64) {
        assert!((7..9).contains(&number));
    }
}

async fn each(tenure: &Tenure, numbers: &[u64], put: impl AsyncFn(u64)) -> Result<(), Ended> {
    for number in numbers {
        tenure.until_ended(put(*number)).await?;
    }
    Ok(())
}

async fn once(tenure: &Tenure, put: impl AsyncFnOnce(&mut u64)) -> Result<(), Ended> {
    tenure.until_ended(put(&mut 7)).await
}

#[leader::work("moves")]
async fn moves(tenure: Tenure, State(log): State<Log>) -> Result<(), Ended> {
    each(&tenure, &[7, 8], async move |number| log.put(number).await).await
}

#[leader::work("borrows_once")]
async fn borrows_once(tenure: Tenure, State(log): State<Log>) -> Result<(), Ended> {
    once(&tenure, async |number| log.put(*number).await).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    assert_eq!(registered().len(), 2);
    let (tenure, _test) = test_util::tenure("closures");
    moves(tenure.clone(), State(Log)).await.unwrap();
    borrows_once(tenure, State(Log)).await.unwrap();
}
