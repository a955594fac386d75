//! The database misbehaves, or the way to it: answers lost, late and out of order, servers that are restarted, stopped,
//! read-only or replaced, tables that an operator changes, errors, clocks.
//!
//! Electors run inside the tests, unless a process must be killed.

mod answers;
mod at_once;
mod claims;
mod clock;
mod commits;
mod connections;
mod durable;
mod errors;
mod failover;
mod handover;
mod locks;
mod logs;
mod operator;
mod overrun;
mod pgbouncer;
mod releases;
mod rows;
mod servers;

use std::time::Duration;

use leader::{Builder, Timings};
use leader_tests::harness::local::{self, Events, FAST, Led};
use leader_tests::harness::{Launch, Proxy, Sql, TestDatabase};

/// The same scenarios, each a test of its own for each database named.
macro_rules! scenarios {
    (postgres: $($scenario:ident),+ $(,)?) => { $( scenarios!(@ $scenario postgres Postgres); )+ };
    (mysql: $($scenario:ident),+ $(,)?) => { $( scenarios!(@ $scenario mysql MySql); )+ };
    (servers: $($scenario:ident),+ $(,)?) => {
        $( scenarios!(@ $scenario postgres Postgres mysql MySql); )+
    };
    (every database: $($scenario:ident),+ $(,)?) => {
        $( scenarios!(@ $scenario postgres Postgres mysql MySql sqlite Sqlite); )+
    };
    (@ $scenario:ident $($test:ident $database:ident)+) => {
        mod $scenario {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$scenario::<sqlx::$database>().await;
                }
            )+
        }
    };
}
pub(crate) use scenarios;

/// The name that everybody campaigns for.
const NAME: &str = "mail";

/// Not as fast as elsewhere: many of these tests run side by side.
const TIMINGS: Timings = Timings {
    lease: Duration::from_secs(4),
    renew: Duration::from_millis(500),
    deadline: Duration::from_secs(3),
    attempt: Some(Duration::from_millis(2500)),
    grace: Duration::from_secs(1),
    campaign: Duration::from_secs(1),
    release: Duration::from_secs(1),
    ..FAST
};

/// For ways that swallow: an attempt that is given up leaves time for more.
const LOSSY: Timings = Timings { attempt: Some(Duration::from_millis(1200)), ..TIMINGS };

/// For outages of some seconds.
const PATIENT: Timings = Timings {
    lease: Duration::from_secs(12),
    deadline: Duration::from_secs(10),
    attempt: Some(Duration::from_secs(2)),
    ..TIMINGS
};

/// A database, and a way to it that can be disturbed.
async fn behind_a_proxy<DB: Sql>() -> (TestDatabase, Proxy) {
    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let proxy = Proxy::to(&database).await;
    (database, proxy)
}

/// An elector that reports to `events`.
fn elector(url: &str, instance: &str, events: &Events) -> Builder {
    local::elector(url, instance, events).timings(TIMINGS)
}

/// An elector that leads.
async fn lead(url: &str, instance: &str) -> Led {
    lead_with(TIMINGS, url, instance).await
}

async fn lead_with(timings: Timings, url: &str, instance: &str) -> Led {
    Led::by(|events, puppet| local::elector(url, instance, events).timings(timings).work(NAME, puppet.work()))
        .await
}

/// A replica as a process. Its attempts have all the time that the deadline leaves them.
fn replica(url: &str, instance: &str, kind: &str) -> Launch {
    const TIMINGS: Timings = Timings { attempt: Some(Duration::from_millis(1600)), ..Launch::TIMINGS };

    replica_by_default(url, instance, kind).timings(&TIMINGS)
}

/// The same with the default timings.
fn replica_by_default(url: &str, instance: &str, kind: &str) -> Launch {
    let replica = Launch::bare(env!("CARGO_BIN_EXE_replica")).flag("--database-url", url);
    replica.instance(instance).work(NAME, kind)
}

/// The term of a name by the tables.
async fn term(database: &TestDatabase) -> i64 {
    let names = database.names().await;
    names.iter().find(|row| row.name == NAME).map_or(0, |row| row.term)
}

/// Fails unless no tenure of these electors began before the one before it was over.
#[track_caller]
fn assert_never_two(events: &[&Events]) {
    use leader::EventKind::{Elected, SteppedDown};

    let mut all: Vec<_> = events.iter().flat_map(|events| events.all()).collect();
    all.sort_by_key(|seen| seen.at);
    let mut running = None;
    for seen in &all {
        match seen.event.kind {
            Elected => {
                assert_eq!(running, None, "two at once: {events:#?}");
                running.clone_from(&seen.event.trace_id);
            }
            SteppedDown => {
                assert_eq!(running, seen.event.trace_id, "{events:#?}");
                running = None;
            }
            _ => {}
        }
    }
}
