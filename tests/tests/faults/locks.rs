//! Somebody holds a lock for long: the keeper gives its wait up, whatever the server's default is, 50 s or for ever.

use std::time::Duration;

use leader::{EventKind, Timings};
use leader_tests::harness::local::{Events, Puppet};
use leader_tests::harness::{Kind, Lock, Sql, TestDatabase};
use tokio::time::Instant;

use crate::{NAME, PATIENT, TIMINGS, elector, lead, lead_with, scenarios};

scenarios!(servers:
    a_wait_for_a_lock_is_given_up_at_the_server,
    a_statement_that_is_given_up_ends_at_the_server,
    the_locked_session_of_a_dead_replica_keeps_no_other_name,
);

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

/// Nobody waits for it any more, and it holds a lock that others wait for.
async fn a_statement_that_is_given_up_ends_at_the_server<DB: Sql>() {
    /// An attempt, and the time of a busy machine.
    const LONGEST: i64 = 2_500 + 1_000;
    const HANGING: Duration = Duration::from_secs(6);

    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let led = lead(&database.url, "first").await;
    let (hang, hangs) = match DB::KIND {
        Kind::Postgres => (
            "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$; \
             CREATE TRIGGER hang BEFORE UPDATE ON leader_sessions FOR EACH ROW EXECUTE FUNCTION hang()",
            "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start) * 1000), 0)::bigint FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event = 'PgSleep'",
        ),
        _ => (
            "CREATE TRIGGER hang BEFORE UPDATE ON leader_sessions FOR EACH ROW DO SLEEP(60)",
            "SELECT CAST(coalesce(max(time_ms), 0) AS SIGNED) FROM information_schema.processlist \
             WHERE command <> 'Sleep' AND info LIKE '%SLEEP(60)%' AND id <> connection_id()",
        ),
    };
    database.execute(hang).await;
    let until = Instant::now() + HANGING;
    let mut longest = 0;
    while Instant::now() < until {
        longest = longest.max(database.number(hangs).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!((1_000..LONGEST).contains(&longest), "the longest statement took {longest} ms");
    database
        .execute(if DB::KIND == Kind::Postgres {
            "DROP TRIGGER hang ON leader_sessions"
        } else {
            "DROP TRIGGER hang"
        })
        .await;
    led.running.shutdown().await.unwrap();
}

/// It cannot be reaped, and its own names have to wait.
async fn the_locked_session_of_a_dead_replica_keeps_no_other_name<DB: Sql>() {
    const DEAD: &str = "00000000000000000000000000000dea";

    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let led = lead(&database.url, "first").await;
    database
        .execute(&format!(
            "INSERT INTO leader_sessions (id, namespace, instance, started_at_ms, expires_at_ms) \
             VALUES ('{DEAD}', 'default', 'dead', 0, 0)"
        ))
        .await;
    let lock =
        Lock::take(&database, &format!("UPDATE leader_sessions SET instance = instance WHERE id = '{DEAD}'"))
            .await;
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let standby = elector(&database.url, "second", &events).work(NAME, puppet.work()).start().await.unwrap();
    tokio::time::sleep(TIMINGS.campaign * 2).await;
    led.running.shutdown().await.unwrap();
    let next = puppet.tenure().await;
    assert!(next.term() > led.tenure.term());
    lock.release().await;
    standby.shutdown().await.unwrap();
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
