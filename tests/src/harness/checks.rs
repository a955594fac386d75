//! What must hold of events and of the ledger.

use std::time::Duration;

use super::database::LedgerRow;

/// Fails unless `later` came between zero and `bound` after `earlier`, both in milliseconds since the epoch.
///
/// # Panics
///
/// Then.
#[track_caller]
pub fn assert_within(bound: Duration, earlier: i64, later: i64, what: &str) {
    let passed = later - earlier;
    let bound = i64::try_from(bound.as_millis()).expect("a small number");
    assert!((0..=bound).contains(&passed), "{what}: {passed} ms, and 0 to {bound} ms are right");
}

/// Fails unless the terms in the ledger only ever grow, and the rows of each replica are in the order they were written.
///
/// # Panics
///
/// Then.
#[track_caller]
pub fn assert_in_order(ledger: &[LedgerRow]) {
    for (before, after) in ledger.iter().zip(ledger.iter().skip(1)) {
        assert!(before.term <= after.term, "a row of an older term after a newer one: {before:?}, {after:?}");
        if before.term == after.term {
            assert_eq!(before.instance, after.instance, "two replicas in one term: {before:?}, {after:?}");
            assert!(before.seq < after.seq, "rows out of order: {before:?}, {after:?}");
        }
    }
}
