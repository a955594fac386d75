//! The works of a library are registered in the program that uses it.

use leader::__private::OnEnd;
use leader_ui_library as _;
use leader_ui_tests::registered;

#[test]
fn works_of_a_library_are_registered() {
    assert_eq!(
        registered(),
        [
            ("library_private", OnEnd::Return, 0),
            ("library_public", OnEnd::Drop, 2),
            ("library_written", OnEnd::Return, 1)
        ]
    );
}
