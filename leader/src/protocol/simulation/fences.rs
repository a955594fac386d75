//! Fenced transactions of the simulated works: share locks on the rows of names (I3), and what ends them when their
//! process does not (I8).

use crate::name::WorkName;
use crate::protocol::SessionId;

/// The transactions that are open at the server.
#[derive(Default)]
pub(super) struct Fences {
    open: Vec<Fence>,
    begun: u64,
}

struct Fence {
    id: u64,
    name: WorkName,
    session: SessionId,
    /// When the server ends it as idle. What runs a statement meanwhile never is.
    idle_until: Option<u64>,
}

impl Fences {
    pub(super) fn begin(&mut self, name: &WorkName, session: SessionId, idle_until: Option<u64>) -> u64 {
        self.begun += 1;
        self.open.push(Fence { id: self.begun, name: name.clone(), session, idle_until });
        self.begun
    }

    /// Whether one of them holds the lock of this row.
    pub(super) fn lock(&self, name: &WorkName) -> bool {
        self.open.iter().any(|fence| fence.name == *name)
    }

    /// A commit or a rollback. Whether there was anything left to end.
    pub(super) fn end(&mut self, id: u64) -> bool {
        self.end_those(|fence| fence.id == id) > 0
    }

    /// Its process is gone, and its connection with it. A statement runs on.
    pub(super) fn cut(&mut self, id: u64) {
        self.end_those(|fence| fence.id == id && fence.idle_until.is_some());
    }

    pub(super) fn end_idle(&mut self, now: u64) {
        self.end_those(|fence| fence.idle_until.is_some_and(|until| until <= now));
    }

    /// How many a standby has ended.
    pub(super) fn end_of(&mut self, name: &WorkName, session: SessionId) -> u64 {
        self.end_those(|fence| fence.name == *name && fence.session == session)
    }

    fn end_those(&mut self, meant: impl Fn(&Fence) -> bool) -> u64 {
        let before = self.open.len();
        self.open.retain(|fence| !meant(fence));
        (before - self.open.len()) as u64
    }
}
