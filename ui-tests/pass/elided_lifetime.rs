use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;

#[leader::work("elided")]
async fn elided(_tenure: Tenure, State(text): State<&str>, _: State<fn(&str) -> &str>) {
    std::future::ready(()).await;
    let _ = text;
}

fn main() {
    assert_eq!(registered(), [("elided", OnEnd::Return, 2)]);
}
