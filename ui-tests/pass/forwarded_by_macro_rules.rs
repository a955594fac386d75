#![deny(warnings)]

use leader::__private::OnEnd;
use leader_ui_tests::registered;

macro_rules! forward {
    ($(#[$attribute:meta])* $visibility:vis async fn $name:ident($($argument:tt)*) $(-> $output:ty)? $body:block) => {
        $(#[$attribute])*
        $visibility async fn $name($($argument)*) $(-> $output)? $body
    };
}

forward! {
    /// Documented.
    #[leader::work("forwarded")]
    #[cfg(all())]
    pub(crate) async fn forwarded(_tenure: leader::Tenure, _: leader::State<u8>) -> Result<(), String> {
        Ok(())
    }
}

// Two functions of one name, each in a block of its own.
macro_rules! in_a_block {
    ($name:literal) => {{
        #[leader::work($name)]
        async fn job(_tenure: leader::Tenure) {}
    }};
}

fn main() {
    in_a_block!("one");
    in_a_block!("two");
    assert_eq!(
        registered(),
        [
            ("forwarded", OnEnd::Return, 1),
            ("one", OnEnd::Return, 0),
            ("two", OnEnd::Return, 0)
        ]
    );
}
