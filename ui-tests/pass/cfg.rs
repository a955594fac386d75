#![allow(unexpected_cfgs)]

use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;

#[cfg(any())]
#[leader::work("off_above")]
async fn off_above(_tenure: Tenure) {}

#[leader::work("off_below")]
#[cfg(any())]
async fn off_below(_tenure: Tenure) {}

#[leader::work("on")]
#[cfg(all())]
#[cfg(not(any()))]
async fn on(_tenure: Tenure) {}

#[leader::work("arguments")]
async fn arguments(
    _tenure: Tenure,
    #[cfg(any())] _off: State<Missing>,
    #[cfg(all())] _on: State<u8>,
    #[cfg_attr(all(), cfg(any()))] _hidden_off: State<Missing>,
    #[cfg_attr(any(), cfg(any()))] _hidden_on: State<u16>,
) {
}

#[cfg_attr(all(), leader::work("by_cfg_attr"))]
async fn by_cfg_attr(_tenure: Tenure) {}

fn main() {
    assert_eq!(
        registered(),
        [
            ("arguments", OnEnd::Return, 2),
            ("by_cfg_attr", OnEnd::Return, 0),
            ("on", OnEnd::Return, 0)
        ]
    );
}
