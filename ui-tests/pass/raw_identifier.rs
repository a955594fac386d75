use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;

#[leader::work("match")]
async fn r#match(r#type: Tenure, r#fn: State<u8>) {
    let _ = (r#type, r#fn);
}

fn main() {
    assert_eq!(registered(), [("match", OnEnd::Return, 1)]);
}
