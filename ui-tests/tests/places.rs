//! Works in the code of tests, which only the tests' own program registers.

use leader::__private::OnEnd;
use leader::Tenure;
use leader_ui_tests::registered;

#[leader::work("in_a_test_file")]
async fn in_a_test_file(tenure: Tenure) {
    tenure.ended().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[leader::work("in_a_test_module")]
    async fn in_a_test_file(tenure: Tenure) {
        super::in_a_test_file(tenure).await;
    }

    #[test]
    fn tests_may_have_works() {
        #[leader::work("in_a_test")]
        async fn in_a_test_file(tenure: Tenure) {
            tenure.ended().await;
        }

        assert_eq!(
            registered(),
            [
                ("in_a_test", OnEnd::Return, 0),
                ("in_a_test_file", OnEnd::Return, 0),
                ("in_a_test_module", OnEnd::Return, 0)
            ]
        );
    }
}
