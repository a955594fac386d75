use leader::__private::OnEnd;
use leader::Tenure;
use leader_ui_tests::registered;

#[leader::work("plain")]
async fn plain(_tenure: Tenure) {}

fn main() {
    assert_eq!(registered(), [("plain", OnEnd::Return, 0)]);
}
