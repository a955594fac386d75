use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;
use tracing::instrument;

#[instrument(skip_all)]
#[leader::work("after")]
async fn after(_tenure: Tenure, State(_count): State<u8>) -> Result<(), std::io::Error> {
    Ok(())
}

#[leader::work("before")]
#[instrument(skip(tenure), fields(term = %tenure.term()), err)]
async fn before(tenure: Tenure, State(count): State<u8>) -> Result<(), std::io::Error> {
    tenure.ended().await;
    if count == 0 {
        return Err(std::io::Error::other("an error"));
    }
    Ok(())
}

fn main() {
    assert_eq!(
        registered(),
        [("after", OnEnd::Return, 1), ("before", OnEnd::Return, 1)]
    );
}
