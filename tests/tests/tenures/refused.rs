//! A right that is taken away while a replica runs: its claims are refused for ever.

use std::time::Duration;

use leader::{EventKind, Timings};
use leader_tests::harness::local::{Events, FAST, Puppet};
use leader_tests::harness::{Kind, PATIENCE, TestDatabase, eventually, logs};

use crate::{NAME, World};

/// Far above the pause after a single failure.
const TIMINGS: Timings = Timings { campaign: Duration::from_millis(1500), ..FAST };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_are_refused_for_ever() {
    logs::keep();
    let database = TestDatabase::create(Kind::Postgres).await;
    if !database.url.contains("://leader:") {
        return; // A server that was given: its roles are not ours.
    }
    database.execute("CREATE ROLE revoked LOGIN PASSWORD 'secret'").await;
    database.execute(leader::tables::POSTGRES).await;
    database
        .execute("GRANT SELECT, INSERT, UPDATE, DELETE ON leader_sessions, leader_names TO revoked, leader")
        .await;
    let url = database.url.replace("://leader:", "://revoked:");
    let world = World::Real(database);
    let led = world.lead().await;
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let elector = world.elector("second", &events).database(url).timings(TIMINGS).work(NAME, puppet.work());
    let standby = elector.start().await.unwrap();
    assert!(standby.healthy());

    // Renewals, of another table, go on.
    let database = world.real();
    database.execute("REVOKE UPDATE ON leader_names FROM revoked").await;
    led.running.shutdown().await.unwrap();
    let healthy = async |wanted| {
        let what = format!("`healthy` to be {wanted}");
        eventually(&what, PATIENCE, async || (standby.healthy() == wanted).then_some(())).await;
    };
    healthy(false).await;
    let refused = async || {
        database.number("SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()").await
    };
    let before = refused().await;
    let rounds = 3;
    tokio::time::sleep(TIMINGS.campaign * rounds).await;
    assert!(!standby.healthy());
    // One a round; and PostgreSQL counts what it did up to a second ago.
    let refused = refused().await - before;
    assert!((1..=i64::from(rounds) + 2).contains(&refused), "{refused} refusals in {rounds} rounds");
    let lines = logs::about("permission denied for table leader_names");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(events.count(EventKind::Elected), 0);

    database.execute("GRANT UPDATE ON leader_names TO revoked").await;
    puppet.tenure().await;
    healthy(true).await;
    standby.shutdown().await.unwrap();
    database.execute("DROP OWNED BY revoked").await;
}
