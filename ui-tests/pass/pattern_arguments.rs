use std::collections::HashMap;

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

#[leader::work("generic patterns")]
async fn generic_patterns(
    _: Tenure,
    State::<HashMap<u8, Option<u16>>>(map): State<HashMap<u8, Option<u16>>>,
    State::<fn(u8) -> u16>(function): State<fn(u8) -> u16>,
) {
    let _ = (map, function);
}

macro_rules! state_of {
    ($($ty:tt)*) => { State<$($ty)*> };
}

#[leader::work("type macros")]
async fn type_macros(_: Tenure, _: state_of! { u8 }, State(pair): state_of![(u8, u16)]) {
    let _ = pair;
}

#[leader::work("wildcard")]
async fn wildcard(_: Tenure) {}

fn main() {
    assert_eq!(
        registered(),
        [
            ("generic patterns", OnEnd::Return, 2),
            ("patterns", OnEnd::Return, 3),
            ("type macros", OnEnd::Return, 2),
            ("wildcard", OnEnd::Return, 0)
        ]
    );
}
