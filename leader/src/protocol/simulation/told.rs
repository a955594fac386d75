//! What was put to the test, counted.

use std::collections::BTreeMap;

/// How often each thing happened.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<&'static str, u64>);

impl Told {
    pub(super) fn count(&mut self, what: &'static str) {
        self.count_many(what, 1);
    }

    pub(super) fn count_many(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            self.count_many(what, *times);
        }
    }

    /// Each happened at least so often; else a check was not put to the test.
    pub(super) fn at_least(&self, expected: &[(&str, u64)]) {
        for (what, least) in expected {
            let times = self.0.get(what).copied().unwrap_or_default();
            assert!(times >= *least, "`{what}` {times} times and not {least}: {:#?}", self.0);
        }
    }
}
