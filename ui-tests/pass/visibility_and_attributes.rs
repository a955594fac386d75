#![deny(warnings)]

use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;

/// Documented.
#[leader::work("public")]
#[must_use]
#[inline]
pub async fn public(_tenure: Tenure) {}

#[leader::work("crate")]
#[allow(unused_variables)]
pub(crate) async fn within(tenure: Tenure) {}

#[deprecated = "use another"]
#[derive(Clone)]
pub struct Old;

#[leader::work("deprecated")]
#[deprecated = "use another"]
async fn old(_tenure: Tenure) {}

#[leader::work("deprecated_type")]
#[expect(deprecated)]
async fn old_type(_tenure: Tenure, _old: State<Old>) {}

fn main() {
    assert_eq!(
        registered(),
        [
            ("crate", OnEnd::Return, 0),
            ("deprecated", OnEnd::Return, 0),
            ("deprecated_type", OnEnd::Return, 1),
            ("public", OnEnd::Return, 0),
        ]
    );
}
