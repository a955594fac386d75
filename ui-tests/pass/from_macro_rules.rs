use leader::__private::OnEnd;
use leader::{State, Tenure};
use leader_ui_tests::registered;

macro_rules! works {
    ($($name:literal => $function:ident($state:ty) -> $output:ty;)*) => {
        $(
            #[leader::work($name)]
            async fn $function(tenure: Tenure, State(state): State<$state>) -> $output {
                let _ = (tenure, state);
                Ok(())
            }
        )*
    };
}

works! {
    "first" => first(u8) -> std::io::Result<()>;
    "second" => second(Vec<u8>) -> Result<(), std::fmt::Error>;
}

macro_rules! by_type_and_expression {
    ($name:expr, $tenure:ty, $($argument:ident: $state:ty),*) => {
        #[leader::work($name, on_end = "drop")]
        async fn third(_tenure: $tenure, $($argument: $state),*) {}
    };
}

by_type_and_expression!("third", Tenure, _a: State<u8>, _b: State<u16>);

macro_rules! whole {
    ($item:item) => {
        #[leader::work("whole")]
        $item
    };
}

whole! {
    async fn fourth(_tenure: Tenure) {}
}

fn main() {
    assert_eq!(
        registered(),
        [
            ("first", OnEnd::Return, 1),
            ("second", OnEnd::Return, 1),
            ("third", OnEnd::Drop, 2),
            ("whole", OnEnd::Return, 0),
        ]
    );
}
