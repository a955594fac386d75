//! Work that takes its time to stop keeps its name until it has.

use std::time::Duration;

use leader_tests::harness::{Kind, Replica, TestDatabase, now_ms};

use crate::{replica, scenarios, started};

scenarios!(every database:
    the_successor_waits,
    a_second_signal_ends_at_once,
    two_signals_at_once_are_one,
    signals_do_not_wait_for_the_log,
);

async fn the_successor_waits(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let [leader, standby] = leader_and_standby(&database, Duration::from_secs(2)).await;

    let told = now_ms();
    leader.term();
    let stepped_down = leader.wait("the stepping down", |event| event.is("stepped_down")).await;
    assert!(stepped_down.at_ms - told >= 2_000, "it was not waited for: {leader}");
    assert_eq!(leader.wait_exit().await, Some(0), "{leader}");
    assert!(!leader.events().iter().any(|event| event.is("lost")), "not renewed while it stopped: {leader}");

    let next = standby.wait("the standby's election", |event| event.is("elected")).await;
    assert!(next.at_ms >= stepped_down.at_ms, "two ran: {leader}{standby}");
}

async fn a_second_signal_ends_at_once(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let [leader, standby] = leader_and_standby(&database, Duration::from_secs(20)).await;

    leader.term();
    leader.wait_line("ending gracefully").await;
    // Two within 50 ms are one.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(leader.exited(), None, "the first signal is a polite one: {leader}");
    let again = now_ms();
    leader.term();
    let code = leader.wait_exit().await;
    let gone = now_ms();
    assert_ne!(code, Some(0), "work was cut off: {leader}");
    assert!(gone - again < 1_000, "{} ms after the second signal", gone - again);
    assert!(!leader.events().iter().any(|event| event.is("stopped")), "{leader}");

    standby.wait("the standby's election", |event| event.is("elected")).await;
}

/// Terminals, wrappers and process groups deliver twice what a person sent once.
async fn two_signals_at_once_are_one(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let [leader, _standby] = leader_and_standby(&database, Duration::from_millis(500)).await;

    leader.term();
    leader.interrupt();
    assert_eq!(leader.wait_exit().await, Some(0), "{leader}");
    assert!(leader.events().iter().any(|event| event.is("stopped")), "{leader}");
}

/// It may block for ever.
async fn signals_do_not_wait_for_the_log(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let leader =
        replica(&database).work("mail", "slow-stop").every(Duration::from_secs(20)).log_unread().start();
    leader.wait("its election", |event| event.is("elected")).await;
    leader.block_log();
    leader.term();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(leader.exited(), None, "the first signal is a polite one: {leader}");
    leader.term();
    assert_eq!(leader.wait_exit().await, Some(128 + 15), "{leader}");
}

async fn leader_and_standby(database: &TestDatabase, every: Duration) -> [Replica; 2] {
    let leader = replica(database).work("mail", "slow-stop").every(every).start();
    leader.wait("its election", |event| event.is("elected")).await;
    let standby = replica(database).work("mail", "idle").start();
    started(&standby).await;
    [leader, standby]
}
