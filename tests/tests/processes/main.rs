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
mod stopped_early;
mod takeover;
mod woken;

pub(crate) use leader_tests::harness::checks::{assert_in_order, assert_within};
use leader_tests::harness::{Event, Kind, Launch, Replica, TestDatabase, eventually};

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

/// A replica with the default timings, and no work yet.
fn default_timings(database: &TestDatabase) -> Launch {
    bare().flag("--database-url", &database.url)
}

/// A database of each kind, for a test that waits for nearly all of its time.
async fn side_by_side() -> [TestDatabase; 3] {
    let postgres = TestDatabase::create_to_wait(Kind::Postgres).await;
    let mysql = postgres.sibling_on(Kind::MySql).await;
    let sqlite = postgres.sibling_on(Kind::Sqlite).await;
    [postgres, mysql, sqlite]
}

/// Waits until the replica is up, so that it is known to campaign.
async fn started(replica: &Replica) {
    replica.wait("the start", |event| event.is("started")).await;
}

/// Waits for a row of this term in the ledger.
async fn written(database: &TestDatabase, tenure: &Event) {
    let what = format!("a row of term {} in the ledger", tenure.term());
    let bound = leader_tests::harness::PATIENCE;
    let row = async || database.ledger().await.into_iter().find(|row| Some(row.term) == tenure.term);
    eventually(&what, bound, row).await;
}
