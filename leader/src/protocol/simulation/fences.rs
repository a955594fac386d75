//! Fenced transactions of the simulated works: share locks on the rows of names (I3), and what ends them when their
//! process does not (I8).

use crate::name::WorkName;
use crate::protocol::{SessionId, Term};

/// The transactions that are open at the server.
#[derive(Default)]
pub(super) struct Fences {
    open: Vec<Fence>,
    begun: u64,
}

pub(super) struct Fence {
    id: u64,
    pub(super) name: WorkName,
    pub(super) session: SessionId,
    pub(super) term: Term,
    /// When the server ends it as idle. What runs a statement meanwhile never is.
    idle_until: Option<u64>,
    /// When the server hears that its client has gone away.
    hangs_up: Option<u64>,
}

impl Fences {
    pub(super) fn begin(
        &mut self,
        name: &WorkName,
        session: SessionId,
        term: Term,
        idle_until: Option<u64>,
    ) -> u64 {
        self.begun += 1;
        let name = name.clone();
        self.open.push(Fence { id: self.begun, name, session, term, idle_until, hangs_up: None });
        self.begun
    }

    pub(super) fn open(&self) -> &[Fence] {
        &self.open
    }

    /// Whether one of them holds the lock of this row.
    pub(super) fn lock(&self, name: &WorkName) -> bool {
        self.open.iter().any(|fence| fence.name == *name)
    }

    /// Whether it runs a statement.
    pub(super) fn runs(&self, id: u64) -> bool {
        self.open.iter().any(|fence| fence.id == id && fence.idle_until.is_none())
    }

    /// A commit or a rollback. Whether there was anything left to end.
    pub(super) fn end(&mut self, id: u64) -> bool {
        self.end_those(|fence| fence.id == id) > 0
    }

    /// A rollback on its way through a partition.
    pub(super) fn end_at(&mut self, id: u64, when: u64) {
        for fence in self.open.iter_mut().filter(|fence| fence.id == id) {
            fence.hangs_up = Some(when);
        }
    }

    /// Its process is gone, and its connection with it. A statement runs on.
    pub(super) fn cut(&mut self, id: u64) {
        self.end_those(|fence| fence.id == id && fence.idle_until.is_some());
    }

    pub(super) fn end_due(&mut self, now: u64) {
        self.end_those(|fence| fence.ends().is_some_and(|ends| ends <= now));
    }

    /// When the next one ends by itself.
    pub(super) fn due(&self) -> Option<u64> {
        self.open.iter().filter_map(Fence::ends).min()
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

impl Fence {
    fn ends(&self) -> Option<u64> {
        self.idle_until.into_iter().chain(self.hangs_up).min()
    }
}
