use leader::__private::OnEnd;
use leader::{Ended, Ending, State, Tenure, test_util};
use leader_ui_tests::registered;

trait Queue {
    fn next(&mut self) -> impl Future<Output = Option<u64>> + Send;
}

impl Queue for Vec<u64> {
    async fn next(&mut self) -> Option<u64> {
        self.pop()
    }
}

async fn drain<Q: Queue>(tenure: &Tenure, queue: &mut Q, each: impl AsyncFn(u64)) -> Result<(), Ended> {
    while let Some(number) = tenure.until_ended(queue.next()).await? {
        each(number).await;
    }
    Ok(())
}

#[leader::work("drain")]
async fn drain_vec(tenure: Tenure, State(mut queue): State<Vec<u64>>) -> Result<(), Ended> {
    drain(&tenure, &mut queue, async |number| assert_eq!(number, 7)).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    assert_eq!(registered(), [("drain", OnEnd::Return, 1)]);
    let (tenure, test) = test_util::tenure("drain");
    drain_vec(tenure.clone(), State(vec![7, 7])).await.unwrap();
    test.end(Ending::SteppedDown);
    drain_vec(tenure, State(vec![7])).await.unwrap_err();
}
