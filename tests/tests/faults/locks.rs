//! Somebody holds a lock for long: the keeper gives its wait up, whatever the server's default is, 50 s or for ever.

use std::time::Duration;

use leader::{EventKind, Timings};
use leader_tests::harness::{Kind, Lock, Sql, TestDatabase};
use tokio::time::Instant;

use crate::{PATIENT, lead_with, scenarios};

scenarios!(servers: a_wait_for_a_lock_is_given_up_at_the_server);

/// The attempt would go on. It is tried again instead, and so succeeds soon after the lock is given back.
async fn a_wait_for_a_lock_is_given_up_at_the_server<DB: Sql>() {
    /// What the keeper bounds a wait by, and the time of a busy machine.
    const LONGEST: i64 = 2_000 + 1_000;
    const LOCKED: Duration = Duration::from_secs(6);
    const TIMINGS: Timings = Timings { attempt: Some(Duration::from_secs(9)), ..PATIENT };

    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let led = lead_with(TIMINGS, &database.url, "first").await;
    let lock = Lock::take(&database, "UPDATE leader_sessions SET instance = instance").await;
    let until = Instant::now() + LOCKED;
    let (mut longest, mut given_up, mut before) = (0, 0, 0);
    while Instant::now() < until {
        let waits = database.number(waits_for(DB::KIND)).await;
        if waits < before {
            given_up += 1;
        }
        before = waits;
        longest = longest.max(waits);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lock.release().await;
    assert!((1_000..LONGEST).contains(&longest), "the longest wait took {longest} ms");
    assert!(given_up >= 2, "{given_up} waits were given up in {LOCKED:?}");
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    led.running.shutdown().await.unwrap();
}

/// For how many milliseconds a statement of the replica has run, 0 if none does.
fn waits_for(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => {
            "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start) * 1000), 0)::bigint FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock'"
        }
        _ => {
            "SELECT CAST(coalesce(max(time_ms), 0) AS SIGNED) FROM information_schema.processlist \
             WHERE db = database() AND user = 'leader' AND info LIKE 'UPDATE leader_sessions%'"
        }
    }
}
