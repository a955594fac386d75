#![no_implicit_prelude]
#![forbid(unsafe_code)]
#![deny(warnings)]

use ::leader::State;
use ::leader::Tenure;

#[::leader::work("bare")]
async fn bare(
    _tenure: Tenure,
    State(_app): State<u8>,
) -> ::core::result::Result<(), ::std::io::Error> {
    ::core::result::Result::Ok(())
}

fn main() {
    ::std::assert_eq!(
        ::leader_ui_tests::registered(),
        [("bare", ::leader::__private::OnEnd::Return, 1)]
    );
}
