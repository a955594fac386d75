use leader::__private::OnEnd;
use leader::Tenure;
use leader_ui_tests::registered;

mod by_its_name {
    use leader::{Tenure, work};

    #[work("by_its_name")]
    async fn job(_tenure: Tenure) {}
}

mod by_another_name {
    use leader::Tenure;
    use leader::work as replicated;

    #[replicated("by_another_name", on_end = "drop")]
    async fn work(_tenure: Tenure) {}
}

mod by_a_glob {
    use leader::*;

    #[work("by_a_glob")]
    async fn job(_tenure: Tenure, _: State<u8>) {}
}

extern crate leader as boss;

#[boss::work("by_extern_crate", crate = boss)]
async fn job(_tenure: Tenure) {}

fn main() {
    assert_eq!(
        registered(),
        [
            ("by_a_glob", OnEnd::Return, 1),
            ("by_another_name", OnEnd::Drop, 0),
            ("by_extern_crate", OnEnd::Return, 0),
            ("by_its_name", OnEnd::Return, 0),
        ]
    );
}
