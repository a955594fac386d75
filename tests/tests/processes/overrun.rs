//! Work that does not stop when its lease is lost takes its process with it.

use std::time::Duration;

use leader::Timings;
use leader_tests::harness::database::SessionRow;
use leader_tests::harness::{Kind, Launch, Proxy, Replica, Sql, TestDatabase, now_ms};
use sqlx::{Sqlite, Transaction};

use crate::{assert_within, bare, replica, scenarios, started};

scenarios!(every database:
    stubborn_work,
    work_that_blocks_a_thread,
    work_that_blocks_the_only_thread,
    work_that_spins_while_no_renewal_is_answered,
);

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
    let bound = Launch::TIMINGS.renew + Launch::TIMINGS.grace + Duration::from_millis(500);
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

/// The grace would go on beyond the lease.
const LONG_GRACE: Timings =
    Timings { grace: Duration::from_mins(1), margin: Duration::from_millis(500), ..Launch::TIMINGS };

/// What a busy machine may be late.
const LATE: Duration = Duration::from_millis(300);

/// Nobody tells these processes of a loss: the deadline passes, and no thread of their runtimes is free to hear of it.
async fn work_that_spins_while_no_renewal_is_answered(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let way = Way::to(&database).await;
    let [one, two] = ["1", "2"].map(|threads| {
        let launch = bare().flag("--database-url", way.url()).timings(&LONG_GRACE);
        launch.work(threads, "spins").instance(threads).flag("--worker-threads", threads).start()
    });
    for leader in [&one, &two] {
        leader.wait("its election", |event| event.is("elected")).await;
    }
    let standby = replica(&database).work("1", "idle").work("2", "idle").instance("standby").start();
    started(&standby).await;

    let cut = now_ms();
    let block = way.block().await;
    let sessions = database.sessions().await;
    let gone = tokio::join!(in_time(&one, "1", &sessions, cut), in_time(&two, "2", &sessions, cut));
    block.end().await;
    for (name, gone) in [("1", gone.0), ("2", gone.1)] {
        let next = standby.wait("the successor", |event| event.is_of("elected", name)).await;
        assert!(next.at_ms >= gone, "elected beside a process that was gone at {gone}: {standby}");
    }
}

/// Waits for the end of a process, which must come after the deadline and `margin` before its lease expires, and
/// returns when it was gone.
async fn in_time(leader: &Replica, instance: &str, sessions: &[SessionRow], cut: i64) -> i64 {
    assert_eq!(leader.wait_exit().await, Some(70), "{leader}");
    let gone = now_ms();
    let session = sessions.iter().find(|session| session.instance == instance).expect("its session");
    let spare = Duration::from_millis(u64::try_from(session.expires_at_ms - gone).unwrap_or_default());
    assert!(spare + LATE >= LONG_GRACE.margin, "gone {spare:?} before the expiry: {leader}");
    let lost = leader.wait("the loss", |event| event.is("lost")).await;
    let after = Duration::from_millis(u64::try_from(lost.at_ms - cut).unwrap_or_default());
    assert!(
        after + LONG_GRACE.renew + LATE >= LONG_GRACE.deadline,
        "lost {after:?} after the last renewal: {leader}"
    );
    gone
}

/// How the leaders reach their database, until they do not.
enum Way<'d> {
    Proxy(Proxy),
    File(&'d TestDatabase),
}

/// As long as this stands, no renewal is answered.
enum Block {
    Hole(Proxy),
    Lock(Transaction<'static, Sqlite>),
}

impl<'d> Way<'d> {
    async fn to(database: &'d TestDatabase) -> Self {
        match database.kind {
            Kind::Sqlite => Self::File(database),
            _ => Self::Proxy(Proxy::to(database).await),
        }
    }

    fn url(&self) -> &str {
        match self {
            Self::Proxy(proxy) => proxy.url(),
            Self::File(database) => &database.url,
        }
    }

    async fn block(self) -> Block {
        match self {
            Self::Proxy(proxy) => {
                proxy.swallow();
                // What was under way before has been answered, or never will be.
                proxy.has_swallowed().await;
                Block::Hole(proxy)
            }
            Self::File(database) => {
                let held = Sqlite::pool(database, 1).begin_with("BEGIN IMMEDIATE").await;
                Block::Lock(held.expect("the write lock"))
            }
        }
    }
}

impl Block {
    async fn end(self) {
        match self {
            Self::Hole(proxy) => drop(proxy),
            Self::Lock(transaction) => transaction.rollback().await.expect("the lock is given back"),
        }
    }
}
