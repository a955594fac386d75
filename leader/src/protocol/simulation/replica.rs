//! A replica of the simulation, and what runs on it.

use std::collections::BTreeMap;

use crate::name::WorkName;
use crate::protocol::{Attempt, Campaign, Reply, SessionId, Term};

/// A statement between a replica and the database.
pub(super) struct Wire {
    pub(super) attempt: Attempt,
    /// When it arrives, if it does.
    pub(super) arrives: Option<u64>,
    pub(super) reply: Option<Reply>,
    /// When the answer comes, if it does.
    pub(super) answers: Option<u64>,
}

pub(super) struct Work {
    pub(super) term: Term,
    pub(super) session: SessionId,
    /// When it will have ended, once it was told.
    pub(super) ends: Option<u64>,
    pub(super) lost: Option<u64>,
    /// Its fenced transaction, and when it commits.
    pub(super) open: Option<(u64, u64)>,
}

pub(super) struct Replica {
    pub(super) campaign: Campaign,
    pub(super) wire: Option<Wire>,
    pub(super) wake: u64,
    /// It waits for hints.
    pub(super) hears: bool,
    /// What was announced meanwhile.
    pub(super) heard: Vec<WorkName>,
    pub(super) frozen_until: u64,
    pub(super) works: BTreeMap<WorkName, Work>,
    /// The start of the last good renewal of each session.
    pub(super) good: BTreeMap<SessionId, u64>,
    pub(super) statements: u64,
    pub(super) seed: u64,
}

impl Replica {
    pub(super) fn must_exit(&self, now: u64) -> bool {
        self.works.values().any(|work| {
            let good = self.good.get(&work.session).copied().unwrap_or_default();
            let loss = work.lost.unwrap_or(u64::MAX).min(good + 1_000);
            now >= (loss + 500).min(good + 1_500 - 50)
        })
    }
}
