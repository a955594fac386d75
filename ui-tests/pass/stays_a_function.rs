use leader::__private::OnEnd;
use leader::{Ended, Ending, State, Tenure, test_util};
use leader_ui_tests::registered;

#[leader::work("counts")]
async fn counts(tenure: Tenure, State(count): State<u8>) -> Result<(), String> {
    tenure.ended().await;
    Err(format!("{} counted to {count}", tenure.name()))
}

#[leader::work("waits", on_end = "drop")]
async fn waits(tenure: Tenure) -> Result<(), Ended> {
    tenure
        .until_ended(std::future::pending())
        .await
}

async fn on_behalf_of_another(tenure: Tenure) -> Result<(), String> {
    counts(tenure, State(8)).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    assert_eq!(
        registered(),
        [("counts", OnEnd::Return, 1), ("waits", OnEnd::Drop, 0)]
    );

    let (tenure, test) = test_util::tenure("any name");
    test.end(Ending::ShuttingDown);
    let counted = counts(tenure.clone(), State(7)).await;
    assert_eq!(counted.unwrap_err(), "any name counted to 7");
    let counted = on_behalf_of_another(tenure.clone()).await;
    assert_eq!(counted.unwrap_err(), "any name counted to 8");
    assert!(waits(tenure).await.is_err());
}
