//! Work that does not stop when its lease is lost takes its process with it.

use std::time::Duration;

use leader_tests::harness::{Kind, Launch, TestDatabase, now_ms, timings};

use crate::{assert_within, replica, scenarios, started};

scenarios!(every database: stubborn_work, work_that_blocks_a_thread, work_that_blocks_the_only_thread);

async fn stubborn_work(kind: Kind) {
    ends_its_process(kind, "stubborn", |launch| launch).await;
}

async fn work_that_blocks_a_thread(kind: Kind) {
    ends_its_process(kind, "blocks", |launch| launch.flag("--worker-threads", "2")).await;
}

async fn work_that_blocks_the_only_thread(kind: Kind) {
    ends_its_process(kind, "blocks", |launch| launch.flag("--worker-threads", "1")).await;
}

async fn ends_its_process(kind: Kind, work: &str, flags: impl Fn(Launch) -> Launch) {
    let database = TestDatabase::create(kind).await;
    let leader = flags(replica(&database).work("mail", work).instance("leader")).start();
    let elected = leader.wait("its election", |event| event.is("elected")).await;
    let standby = replica(&database).work("mail", "idle").instance("standby").start();
    started(&standby).await;

    assert_eq!(database.delete_sessions_of("leader").await, 1);
    let robbed = now_ms();
    let code = leader.wait_exit().await;
    let gone = now_ms();
    assert_eq!(code, Some(70), "{leader}");
    let bound = timings::RENEW + timings::GRACE + Duration::from_millis(500);
    assert_within(bound, robbed, gone, &format!("from the loss of the session to the end of {leader}"));

    let about = |event: &str| leader.events().into_iter().filter(|line| line.is(event)).collect::<Vec<_>>();
    assert_eq!(about("lost").len(), 1, "{leader}");
    assert_eq!(about("overrun").len(), 1, "{leader}");
    assert_eq!(about("overrun")[0].name.as_deref(), Some("mail"));
    assert_eq!(about("overrun")[0].term, elected.term);
    assert_eq!(about("stepped_down"), [], "the work is not gone, its process is");

    let next = standby.wait("the standby's election", |event| event.is("elected")).await;
    assert!(next.term() > elected.term());
}
