//! Functions of one name that are never in one place together.

#![deny(warnings)]

use leader_ui_tests::registered;

mod platforms {
    use leader::Tenure;

    #[leader::work("on")]
    #[cfg(all())]
    async fn job(_tenure: Tenure) {}

    #[leader::work("off")]
    #[cfg(any())]
    async fn job(_tenure: Tenure) {}

    #[cfg(any())]
    #[leader::work("off_above")]
    async fn job(_tenure: Tenure) {}

    #[leader::work("off_in_a_cfg_attr")]
    #[cfg_attr(all(), cfg(any()))]
    async fn job(_tenure: Tenure) {}

    #[cfg_attr(all(), leader::work("attribute_on"))]
    #[cfg_attr(any(), leader::work("attribute_off"))]
    async fn by_attribute(_tenure: Tenure) {}

    mod inner {
        #[allow(unused_imports)]
        use super::*;

        #[leader::work("inner")]
        async fn job(_tenure: Tenure) {}
    }
}

fn main() {
    use leader::Tenure;

    #[leader::work("body")]
    async fn job(_tenure: Tenure) {}

    let _inner = {
        #[leader::work("block")]
        async fn job(_tenure: Tenure) {}
        job
    };

    let names: Vec<_> = registered().into_iter().map(|work| work.0).collect();
    assert_eq!(names, ["attribute_on", "block", "body", "inner", "on"]);
}
