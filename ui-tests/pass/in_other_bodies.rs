use leader_ui_tests::registered;

const _: () = {
    #[leader::work("constant")]
    async fn job(_tenure: leader::Tenure) {}
};

struct App;

impl App {
    fn method() {
        #[leader::work("method")]
        async fn job(_tenure: leader::Tenure, _app: leader::State<u8>) {}
    }
}

fn generic<T>() {
    #[leader::work("generic")]
    async fn job(_tenure: leader::Tenure) {}
}

fn main() {
    let closure = || {
        #[leader::work("closure")]
        async fn job(_tenure: leader::Tenure) {}
    };
    let block = async {
        #[leader::work("block")]
        async fn job(_tenure: leader::Tenure) {}
    };
    closure();
    drop(block);
    App::method();
    generic::<u8>();

    let names: Vec<_> = registered().into_iter().map(|work| work.0).collect();
    assert_eq!(names, ["block", "closure", "constant", "generic", "method"]);
}
