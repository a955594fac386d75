use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;

#[derive(Clone)]
struct App {
    greeting: &'static str,
}

#[leader::work("patterns")]
async fn patterns(
    mut tenure: Tenure,
    State(App { greeting }): State<App>,
    State((x, ..)): State<(u8, u8)>,
    _: State<u8>,
) {
    let other = tenure.clone();
    tenure = other;
    let _ = (tenure, greeting, x);
}

#[leader::work("wildcard")]
async fn wildcard(_: Tenure) {}

fn main() {
    assert_eq!(
        registered(),
        [
            ("patterns", OnEnd::Return, 3),
            ("wildcard", OnEnd::Return, 0)
        ]
    );
}
