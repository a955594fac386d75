//! Black-box tests: replicas as processes on real databases, stopped, killed, frozen and robbed of their sessions.
//!
//! Bounds are measured from the times that the replicas stamp their events with, and widened only where the machine is
//! the reason.

mod broken_log;
mod frozen;
mod input;
mod many;
mod one_file;
mod outcomes;
mod overrun;
mod runs;
mod slow_stop;
mod takeover;
mod woken;

use std::time::Duration;

use leader_tests::harness::database::LedgerRow;
use leader_tests::harness::{Event, Launch, Replica, TestDatabase, eventually};

/// The same scenarios, each a test of its own for each database named.
macro_rules! scenarios {
    (postgres: $($scenario:ident),+ $(,)?) => { scenarios!(@ postgres Postgres $($scenario)+); };
    (mysql: $($scenario:ident),+ $(,)?) => { scenarios!(@ mysql MySql $($scenario)+); };
    (sqlite: $($scenario:ident),+ $(,)?) => { scenarios!(@ sqlite Sqlite $($scenario)+); };
    (servers: $($scenario:ident),+ $(,)?) => {
        scenarios!(postgres: $($scenario),+);
        scenarios!(mysql: $($scenario),+);
    };
    (every database: $($scenario:ident),+ $(,)?) => {
        scenarios!(servers: $($scenario),+);
        scenarios!(sqlite: $($scenario),+);
    };
    (@ $module:ident $kind:ident $($scenario:ident)+) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $scenario() {
                    super::$scenario(leader_tests::harness::Kind::$kind).await;
                }
            )+
        }
    };
}
pub(crate) use scenarios;

/// A replica on this database, with the timings of the tests.
fn replica(database: &TestDatabase) -> Launch {
    launch(&database.url)
}

fn launch(database_url: &str) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_replica"), database_url)
}

/// A replica without a flag.
fn bare() -> Launch {
    Launch::bare(env!("CARGO_BIN_EXE_replica"))
}

/// Waits until the replica is up, so that it is known to campaign.
async fn started(replica: &Replica) {
    replica.wait("the start", |event| event.is("started")).await;
}

/// Fails unless `later` came between zero and `bound` after `earlier`, both in milliseconds since the epoch.
#[track_caller]
fn assert_within(bound: Duration, earlier: i64, later: i64, what: &str) {
    let passed = later - earlier;
    let bound = i64::try_from(bound.as_millis()).expect("a small number");
    assert!((0..=bound).contains(&passed), "{what}: {passed} ms, and 0 to {bound} ms are right");
}

/// Fails unless the terms in the ledger only ever grow, and the rows of each replica are in the order they were written.
#[track_caller]
fn assert_in_order(ledger: &[LedgerRow]) {
    for (before, after) in ledger.iter().zip(ledger.iter().skip(1)) {
        assert!(before.term <= after.term, "a row of an older term after a newer one: {before:?}, {after:?}");
        if before.term == after.term {
            assert_eq!(before.instance, after.instance, "two replicas in one term: {before:?}, {after:?}");
            assert!(before.seq < after.seq, "rows out of order: {before:?}, {after:?}");
        }
    }
}

/// Waits for a row of this term in the ledger.
async fn written(database: &TestDatabase, tenure: &Event) {
    let what = format!("a row of term {} in the ledger", tenure.term());
    let bound = leader_tests::harness::PATIENCE;
    let row = async || database.ledger().await.into_iter().find(|row| Some(row.term) == tenure.term);
    eventually(&what, bound, row).await;
}
