use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;

#[derive(Clone)]
struct Generic<T, const N: usize>([T; N]);

#[leader::work("many_states")]
#[allow(clippy::too_many_arguments)]
async fn many_states(
    tenure: Tenure,
    _: State<Generic<u8, 3>>,
    _: State<Generic<u16, 4>>,
    _: State<Arc<Mutex<HashMap<String, Vec<u8>>>>>,
    _: State<Arc<dyn Fn(&str) -> usize + Send + Sync>>,
    _: State<fn(u8) -> u8>,
    _: State<[u8; 4]>,
    _: State<(u8, &'static str)>,
    _: State<()>,
    _: State<Option<Box<u8>>>,
    #[allow(unused_variables)] last: State<<Vec<u8> as IntoIterator>::Item>,
) {
    tenure.ended().await;
}

fn main() {
    let _ = Generic([0; 3]).0;
    assert_eq!(registered(), [("many_states", OnEnd::Return, 10)]);
}
