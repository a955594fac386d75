//! Several replicas of one program, which tests kill, freeze and stop while they lead.

use std::collections::BTreeMap;
use std::time::Instant;

use super::database::{NameRow, SessionRow, TestDatabase};
use super::eventually;
use super::replica::{Launch, PATIENCE, Replica};

/// Replicas of a program. Who leads is read from the tables, so the program need not say it.
#[derive(Debug)]
pub struct Deployment<'d> {
    database: &'d TestDatabase,
    launch: Launch,
    name: String,
    replicas: Vec<Replica>,
}

/// Who leads, and since which election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The process.
    pub pid: i32,
    /// Its term.
    pub term: i64,
}

impl<'d> Deployment<'d> {
    /// Starts that many replicas and waits until all campaign for the work of this name.
    ///
    /// # Panics
    ///
    /// When one does not start.
    pub async fn start(database: &'d TestDatabase, launch: Launch, name: &str, size: usize) -> Self {
        let mut deployment = Self { database, launch, name: name.to_owned(), replicas: Vec::new() };
        for _ in 0..size {
            deployment.add().await;
        }
        deployment
    }

    /// One more replica, in the place of one that is gone. A start is refused when the database does not answer within
    /// one attempt, which is short in tests and may not do on a busy machine: as a supervisor would, it starts it again.
    ///
    /// # Panics
    ///
    /// When it does not start in good time.
    pub async fn add(&mut self) {
        const STARTED: &str = "campaigning for";
        const REFUSED: &str = "got no answer within";

        let until = Instant::now() + PATIENCE;
        loop {
            let replica = self.launch.start();
            if replica.wait_line_with(&[STARTED, REFUSED]).await.contains(STARTED) {
                return self.replicas.push(replica);
            }
            assert!(Instant::now() < until, "refused again and again: {replica}");
        }
    }

    /// Who leads now, or will next.
    ///
    /// # Panics
    ///
    /// When nobody does in good time.
    pub async fn leader(&self) -> Leader {
        self.leader_after(0).await
    }

    /// Who leads under a later term than this one.
    ///
    /// # Panics
    ///
    /// When nobody does in good time.
    pub async fn leader_after(&self, term: i64) -> Leader {
        let what = format!("a leader of `{}` after term {term}", self.name);
        let later = async || self.read(&self.name).await.filter(|leader| leader.term > term);
        eventually(&what, PATIENCE, later).await
    }

    /// Who leads another of the program's works.
    ///
    /// # Panics
    ///
    /// When nobody does in good time.
    pub async fn leader_of(&self, name: &str) -> Leader {
        eventually(&format!("a leader of `{name}`"), PATIENCE, async || self.read(name).await).await
    }

    /// Who leads what, for each name that one of these replicas leads.
    pub async fn leaders(&self) -> BTreeMap<String, Leader> {
        let names = self.database.names().await;
        let sessions = self.database.sessions().await;
        let of_session: BTreeMap<_, _> =
            sessions.iter().filter_map(|session| Some((&session.id, self.process(session)?))).collect();
        let leader = |name: NameRow| {
            let pid = *of_session.get(&name.session_id?)?;
            Some((name.name, Leader { pid, term: name.term }))
        };
        names.into_iter().filter_map(leader).collect()
    }

    /// All replicas.
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// The replica of this process.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn replica(&self, pid: i32) -> &Replica {
        self.replicas.iter().find(|replica| replica.pid() == pid).expect("a replica of this deployment")
    }

    /// Kills a replica and starts another one.
    ///
    /// # Panics
    ///
    /// When the other one does not start.
    pub async fn kill(&mut self, pid: i32) {
        self.lose(pid).await;
        self.add().await;
    }

    /// Kills a replica, and starts none in its place.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub async fn lose(&mut self, pid: i32) {
        let dying = self.take(pid);
        dying.kill();
        dying.wait_exit().await;
    }

    /// Stops a replica, waits until it has ended as it should, and starts another one.
    ///
    /// # Panics
    ///
    /// When it does not end, or not with success, or the other one does not start.
    pub async fn stop(&mut self, pid: i32) {
        let stopping = self.take(pid);
        stopping.term();
        assert_eq!(stopping.wait_exit().await, Some(0), "{stopping}");
        self.add().await;
    }

    /// Freezes a replica, at a moment when it does not hold up the others: whoever writes to a SQLite file does.
    pub async fn freeze(&self, pid: i32) {
        let replica = self.replica(pid);
        replica.freeze();
        while self.database.is_held_up().await {
            replica.wake();
            tokio::task::yield_now().await;
            replica.freeze();
        }
    }

    /// Freezes a replica in the midst of this tenure, whoever waits for it.
    ///
    /// # Panics
    ///
    /// When the tenure was over before.
    pub fn freeze_leading(&self, leader: Leader) {
        self.replica(leader.pid).freeze();
        assert!(self.is_sure(leader), "the tenure was over before the freeze: {leader:?}");
    }

    /// Wakes a replica that somebody else has succeeded, and waits until this tenure of it is over.
    ///
    /// # Panics
    ///
    /// When it does not end it.
    pub async fn wake(&self, old: Leader) {
        self.replica(old.pid).wake();
        self.says(old, "stepped down").await;
    }

    /// The first line with this text that the replica logged in this tenure, or will.
    ///
    /// # Panics
    ///
    /// When there is none in good time.
    pub async fn says(&self, leader: Leader, text: &str) -> String {
        self.replica(leader.pid).wait_line_of(leader.term, text).await
    }

    /// Whether the replica believes that this tenure of it goes on.
    ///
    /// # Panics
    ///
    /// When there is no such replica.
    pub fn is_sure(&self, leader: Leader) -> bool {
        let replica = self.replica(leader.pid);
        !["lease lost", "stepped down"].iter().any(|end| replica.has_line_of(leader.term, end))
    }

    /// Stops all of them, one after the other.
    ///
    /// # Panics
    ///
    /// When one does not end, or not with success.
    pub async fn shut_down(mut self) {
        for replica in self.replicas.drain(..) {
            replica.term();
            assert_eq!(replica.wait_exit().await, Some(0), "{replica}");
        }
    }

    fn take(&mut self, pid: i32) -> Replica {
        let at = self.replicas.iter().position(|replica| replica.pid() == pid);
        self.replicas.remove(at.expect("a replica of this deployment"))
    }

    /// The process whose session this is, if it is one of these.
    fn process(&self, session: &SessionRow) -> Option<i32> {
        // An instance that nobody named is `host-pid-random`.
        let pid = session.instance.rsplit('-').nth(1)?.parse().ok()?;
        self.replicas.iter().any(|replica| replica.pid() == pid).then_some(pid)
    }

    async fn read(&self, name: &str) -> Option<Leader> {
        self.leaders().await.remove(name)
    }
}

impl Drop for Deployment<'_> {
    /// A test that fails shows what its replicas said.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.replicas.iter().for_each(|replica| eprintln!("{replica}"));
        }
    }
}
