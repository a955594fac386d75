use leader::__private::OnEnd;
use leader_ui_tests::registered;

fn main() {
    use leader::{State, Tenure};

    #[derive(Clone)]
    struct Local;

    #[leader::work("local")]
    async fn local(_tenure: Tenure, _app: State<Local>) {}

    assert_eq!(
        registered(),
        [("local", OnEnd::Return, 1), ("nested", OnEnd::Return, 0)]
    );

    {
        #[leader::work("nested")]
        async fn local(_tenure: Tenure) {}
    }
}
