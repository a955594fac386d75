//! The single connection under fire: its holders die, freeze, stop and lose their lease, and the upstream never sees two.

mod upstream;

use std::time::Duration;

use leader_tests::harness::deployment::Leader;
use leader_tests::harness::{Deployment, Kind, Launch, Lock, TestDatabase};

use upstream::{Session, Upstream, welcome};

#[tokio::test]
async fn postgres() {
    one_session_at_a_time(Kind::Postgres).await;
}

#[tokio::test]
async fn sqlite() {
    one_session_at_a_time(Kind::Sqlite).await;
}

/// A little less than a third of the lease, which is `lease - deadline`.
const PATIENCE_OF_UPSTREAM: Duration = Duration::from_millis(1_300);

async fn one_session_at_a_time(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let upstream = Upstream::start(PATIENCE_OF_UPSTREAM);
    let launch = Launch::bare(env!("CARGO_BIN_EXE_single_connection"))
        .flag("--database-url", &database.url)
        .flag("--upstream", &upstream.address)
        .flag("--lease", "4");
    let replicas = Deployment::start(&database, launch, "feed", 3).await;
    let mut feed = Feed { database: &database, upstream, replicas };

    feed.dies().await;
    feed.stops().await;
    feed.freezes().await;
    feed.loses_its_lease().await;
    feed.stops().await;

    feed.replicas.shut_down().await;
    let sessions = feed.upstream.sessions();
    assert!(!sessions.contains(&Session::Refused), "two at a time: {sessions:?}");
    assert!(!sessions.contains(&Session::Open), "not closed: {sessions:?}");
}

struct Feed<'d> {
    database: &'d TestDatabase,
    upstream: Upstream,
    replicas: Deployment<'d>,
}

impl Feed<'_> {
    async fn dies(&mut self) {
        let (leader, sessions) = self.reads().await;
        self.replicas.kill(leader.pid).await;
        assert_eq!(self.upstream.opens_after(sessions).await, Some(Session::Closed));
    }

    /// The read that it sits in never returns by itself.
    async fn stops(&mut self) {
        let (leader, sessions) = self.reads().await;
        self.replicas.stop(leader.pid).await;
        assert_eq!(self.upstream.opens_after(sessions).await, Some(Session::Closed));
    }

    async fn freezes(&mut self) {
        let (leader, sessions) = self.reads().await;
        self.replicas.freeze(leader.pid).await;
        assert_eq!(self.upstream.opens_after(sessions).await, Some(Session::Silent));
        self.replicas.wake(leader).await;
    }

    /// Nothing is wrong with the process or the upstream: it cannot renew.
    async fn loses_its_lease(&mut self) {
        let (leader, sessions) = self.reads().await;
        let lock = Lock::take(self.database, "LOCK TABLE leader_sessions").await;
        self.upstream.closes().await;
        self.replicas.says(leader, "lease lost").await;
        // By its return, not by the end of its process.
        self.replicas.says(leader, "stepped down").await;
        lock.release().await;
        assert_eq!(self.upstream.opens_after(sessions).await, Some(Session::Closed));
    }

    /// Waits until the leader reads from its session. Who that is, and how many were dialled so far.
    async fn reads(&self) -> (Leader, usize) {
        self.upstream.opens_after(0).await;
        let (leader, sessions) = (self.replicas.leader().await, self.upstream.sessions().len());
        self.replicas.replica(leader.pid).wait_line(&welcome(sessions)).await;
        (leader, sessions)
    }
}
