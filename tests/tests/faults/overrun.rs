//! Work that ignores the loss of its lease at the deadline: its process is gone before the lease can expire, and before
//! anybody else is elected.

use std::time::Duration;

use leader::Timings;
use leader_tests::harness::{Launch, Sql, Statement, To, now_ms};

use crate::answers::last_good;
use crate::{NAME, behind_a_proxy, scenarios};

scenarios!(servers: stubborn_work, work_that_blocks_its_thread);

async fn stubborn_work<DB: Sql>() {
    is_gone_in_time::<DB>("stubborn").await;
}

async fn work_that_blocks_its_thread<DB: Sql>() {
    is_gone_in_time::<DB>("blocks").await;
}

async fn is_gone_in_time<DB: Sql>(kind: &str) {
    /// The grace would be longer than the lease.
    const TIMINGS: Timings = Timings {
        attempt: Some(Duration::from_millis(1600)),
        grace: Duration::from_secs(5),
        margin: Duration::from_millis(300),
        ..Launch::TIMINGS
    };

    let (database, proxy) = behind_a_proxy::<DB>().await;
    let launch = |url: &str, instance: &str, kind: &str| {
        let launch = Launch::bare(env!("CARGO_BIN_EXE_replica")).flag("--database-url", url);
        launch.timings(&TIMINGS).instance(instance).work(NAME, kind).start()
    };
    let first = launch(proxy.url(), "first", kind);
    let elected = first.wait("its election", |event| event.is("elected")).await;
    let second = launch(&database.url, "second", "idle");
    second.wait("the start", |event| event.is("started")).await;
    proxy.wait("a renewal", |judged| judged.message.is(To::Client, Statement::Renew)).await;
    proxy.swallow();
    assert_eq!(first.wait_exit().await, Some(70), "{first}");
    let (gone, gone_ms) = (tokio::time::Instant::now(), now_ms());
    let after = gone.duration_since(last_good(&proxy, Duration::ZERO, gone));
    assert!(after < TIMINGS.lease, "gone {after:?} after the start of the last good renewal");
    let next = second.wait("the successor", |event| event.is("elected")).await;
    assert!(next.term() > elected.term());
    assert!(
        next.at_ms >= gone_ms - 10,
        "elected {} ms before the process was seen to be gone",
        gone_ms - next.at_ms
    );
}
