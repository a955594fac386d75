use leader::__private::OnEnd;
use leader_ui_tests::registered;

mod facade {
    pub mod inner {
        pub use leader as boss;
    }
    pub use leader::work;
}

use facade::inner::boss;

#[boss::work("relative", crate = boss)]
async fn relative(_tenure: boss::Tenure) {}

#[facade::work("absolute", crate = crate::facade::inner::boss)]
async fn absolute(_tenure: boss::Tenure, _app: boss::State<u8>) {}

#[facade::work("extern", on_end = "drop", crate = ::leader,)]
async fn external(_tenure: boss::Tenure) {}

macro_rules! from_here {
    ($name:literal, $function:ident) => {
        #[$crate::facade::work($name, crate = $crate::facade::inner::boss)]
        async fn $function(_tenure: $crate::facade::inner::boss::Tenure) {}
    };
}

mod elsewhere {
    from_here!("macro", by_macro);
}

fn main() {
    assert_eq!(
        registered(),
        [
            ("absolute", OnEnd::Return, 1),
            ("extern", OnEnd::Drop, 0),
            ("macro", OnEnd::Return, 0),
            ("relative", OnEnd::Return, 0),
        ]
    );
}
