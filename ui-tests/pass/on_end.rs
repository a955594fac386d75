use leader::__private::OnEnd;
use leader::Tenure;
use leader_ui_tests::registered;

#[leader::work("default")]
async fn by_default(_tenure: Tenure) {}

#[leader::work("drop", on_end = "drop")]
async fn dropped(_tenure: Tenure) {}

#[leader::work("return", on_end = r"return")]
async fn returns(_tenure: Tenure) {}

fn main() {
    assert_eq!(
        registered(),
        [
            ("default", OnEnd::Return, 0),
            ("drop", OnEnd::Drop, 0),
            ("return", OnEnd::Return, 0)
        ]
    );
}
