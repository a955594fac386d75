//! One process may run electors one after the other.

use std::time::Duration;

use leader_tests::harness::{Kind, TestDatabase, now_ms};

use crate::{replica, scenarios};

scenarios!(every database: a_run_after_one_that_failed_stops_gracefully);

/// Nobody takes the listening for signals back, and the second run must not be cut off by what is left of the first.
async fn a_run_after_one_that_failed_stops_gracefully(kind: Kind) {
    const WINDS_DOWN: Duration = Duration::from_millis(700);

    let database = TestDatabase::create(kind).await;
    let launch = replica(&database).flag("--run-before", "postgres://nobody@127.0.0.1:1/nowhere");
    let leader = launch.work("mail", "slow-stop").every(WINDS_DOWN).start();
    leader.wait("its election", |event| event.is("elected")).await;
    assert!(leader.log().contains("refused"), "the run before did not fail: {leader}");

    let told = now_ms();
    leader.term();
    assert_eq!(leader.wait_exit().await, Some(0), "{leader}");
    let events = leader.events();
    let kinds: Vec<_> = events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(kinds, ["started", "elected", "stepped_down", "stopped"], "{leader}");
    assert_eq!(events[2].reason.as_deref(), Some("shutting down"), "{leader}");
    assert!(events[2].at_ms - told >= 700, "it was not waited for: {leader}");
    assert!(database.sessions().await.is_empty(), "not given back: {leader}");
}
