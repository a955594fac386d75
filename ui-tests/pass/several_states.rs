use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;

#[derive(Clone)]
struct App;

#[leader::work("several_states")]
async fn several_states(
    _tenure: Tenure,
    _app: State<App>,
    _count: State<u8>,
    _names: State<Vec<String>>,
) {
}

fn main() {
    assert_eq!(registered(), [("several_states", OnEnd::Return, 3)]);
}
