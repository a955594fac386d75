//! What a replica logs while its database is away.

use std::time::Duration;

use leader_tests::harness::{Launch, PATIENCE, Sql, TestDatabase, eventually};

use crate::{replica, scenarios};

scenarios!(servers: a_standby_logs_transitions_only);

/// Each attempt is told at DEBUG, for whoever wants to know.
async fn a_standby_logs_transitions_only<DB: Sql>() {
    const AWAY: Duration = Duration::from_secs(10);
    const A_HANDFUL: usize = 8;

    let (database, server) = TestDatabase::create_to_wait_on_own_server(DB::KIND).await;
    let leader = replica(&database.url, "leader", "idle").start();
    leader.wait("its election", |event| event.is("elected")).await;
    let standby = replica(&database.url, "standby", "idle").verbose().start();
    standby.wait("the start", |event| event.is("started")).await;
    let at = |level: &str| {
        let log = standby.log();
        log.lines().filter(|line| line.contains(&format!(" {level} leader"))).count()
    };
    tokio::time::sleep(Launch::TIMINGS.campaign * 2).await;
    let told = || at("ERROR") + at("WARN") + at("INFO");
    assert!(told() <= 2, "{standby}");
    let before = at("DEBUG");
    assert!(before > 0, "{standby}");

    server.kill();
    tokio::time::sleep(AWAY).await;
    let tries = at("DEBUG") - before;
    server.start().await;
    let back = async || {
        (database.try_number("SELECT count(*) FROM leader_sessions WHERE expires_at_ms > 0").await.ok()? >= 2)
            .then_some(())
    };
    eventually("both sessions", PATIENCE, back).await;
    let answers = async || standby.log().contains("the database answers again").then_some(());
    eventually("that it is told", PATIENCE, answers).await;

    assert!(standby.log().contains("the database does not do what a lease needs"), "{standby}");
    assert!(told() <= A_HANDFUL, "{} lines: {standby}", told());
    let renewals = AWAY.as_millis() / Launch::TIMINGS.renew.as_millis();
    assert!(tries as u128 > renewals / 2, "{tries} attempts were told in {AWAY:?}: {standby}");
}
