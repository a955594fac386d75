//! A log that blocks for ever, or panics: the process of a work that ignores its loss ends on time all the same.

use std::time::Duration;

use leader_tests::harness::{Event, Kind, Launch, Replica, TestDatabase, now_ms};

use crate::{assert_within, replica, scenarios, started};

scenarios!(every database:
    a_log_that_blocks,
    a_log_that_blocks_before_the_loss,
    a_log_that_panics_at_the_loss_of_the_session,
    a_log_that_panics_at_the_loss_of_the_lease,
    a_log_that_panics_hides_no_ending,
    a_log_that_panics_at_the_end_of_a_tenure,
);

/// What a busy machine may be late.
const LATE: Duration = Duration::from_millis(500);

async fn a_log_that_blocks(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let (leader, _, standby) = set(&database, |launch| launch.work("mail", "stubborn").log_unread()).await;
    leader.block_log();
    ends_after_a_robbery(&database, &leader, &standby).await;
}

/// The keeper waits for the log from the first failure on, and so it is the watchdog that finds the deadline passed.
async fn a_log_that_blocks_before_the_loss(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let launch = replica(&database).work("mail", "stubborn").instance("leader").log_unread();
    let leader = launch.start();
    leader.wait("its election", |event| event.is("elected")).await;
    leader.block_log();
    database
        .execute(match kind {
            Kind::Sqlite => "DROP TABLE leader_sessions",
            _ => "ALTER TABLE leader_sessions RENAME TO elsewhere",
        })
        .await;
    let begun = now_ms();
    assert_eq!(leader.wait_exit().await, Some(70), "{leader}");
    assert_within(Launch::TIMINGS.lease + LATE, begun, now_ms(), &format!("to the end of {leader}"));
}

/// The keeper is gone with it.
async fn a_log_that_panics_at_the_loss_of_the_session(kind: Kind) {
    panics_at(kind, "session lost").await;
}

async fn a_log_that_panics_at_the_loss_of_the_lease(kind: Kind) {
    panics_at(kind, "lease lost").await;
}

async fn panics_at(kind: Kind, record: &str) {
    let database = TestDatabase::create(kind).await;
    // `run` returns an error then, and the runtime waits for this work before `main` can return.
    let launch = |launch: Launch| launch.work("mail", "blocks").flag("--log-panics-at", record);
    let (leader, _, standby) = set(&database, launch).await;
    ends_after_a_robbery(&database, &leader, &standby).await;
    assert!(leader.log().contains("the log broke"), "{leader}");
}

/// What the keeper could not tell before it broke is told by whoever ends the work.
async fn a_log_that_panics_hides_no_ending(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    // Slow, so that the keeper has broken before anybody else can tell of the loss.
    let launch = |launch: Launch| {
        launch.work("mail", "slow-stop").every(Launch::TIMINGS.lease).flag("--log-panics-at", "session lost")
    };
    let (leader, elected, standby) = set(&database, launch).await;
    assert_eq!(database.delete_sessions_of("leader").await, 1);
    // The keeper is gone, and `run` says so.
    assert_eq!(leader.wait_exit().await, Some(1), "{leader}");
    let events = leader.events();
    let kinds: Vec<_> = events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(kinds, ["started", "elected", "lost", "stepped_down"], "{leader}");
    assert!(events[1..].iter().all(|event| event.term == elected.term), "{leader}");
    assert_eq!(events[3].reason.as_deref(), Some("lease lost"), "{leader}");
    standby.wait("the standby's election", |event| event.is("elected")).await;
}

/// It costs the line and nothing else.
async fn a_log_that_panics_at_the_end_of_a_tenure(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let leader = replica(&database)
        .work("mail", "returns")
        .every(Duration::from_millis(50))
        .flag("--log-panics-at", "stepped down")
        .instance("leader")
        .start();
    let elected = leader.wait("its election", |event| event.is("elected")).await;
    let again = |event: &Event| event.is("elected") && event.term > elected.term;
    leader.wait("its second election", again).await;
    leader.term();
    assert_eq!(leader.wait_exit().await, Some(0), "{leader}");
    assert!(leader.log().contains("the log broke"), "{leader}");
    let events = leader.events();
    let ends = events.iter().filter(|event| event.is("stepped_down")).count();
    assert_eq!(ends, events.iter().filter(|event| event.is("elected")).count(), "{leader}");
}

async fn set(database: &TestDatabase, launch: impl Fn(Launch) -> Launch) -> (Replica, Event, Replica) {
    let leader = launch(replica(database)).instance("leader").start();
    let elected = leader.wait("its election", |event| event.is("elected")).await;
    let standby = replica(database).work("mail", "idle").instance("standby").start();
    started(&standby).await;
    (leader, elected, standby)
}

async fn ends_after_a_robbery(database: &TestDatabase, leader: &Replica, standby: &Replica) {
    assert_eq!(database.delete_sessions_of("leader").await, 1);
    let robbed = now_ms();
    assert_eq!(leader.wait_exit().await, Some(70), "{leader}");
    let bound = Launch::TIMINGS.renew + Launch::TIMINGS.grace + LATE;
    assert_within(bound, robbed, now_ms(), &format!("from the loss of the session to the end of {leader}"));
    standby.wait("the standby's election", |event| event.is("elected")).await;
}
