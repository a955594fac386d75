use leader::__private::OnEnd;
use leader_ui_tests::registered;

#[leader::work("größe")]
async fn größe(_amtszeit: leader::Tenure) {}

fn main() {
    assert_eq!(registered(), [("größe", OnEnd::Return, 0)]);
}
