//! A replica of the simulation, and what runs on it.

use std::collections::BTreeMap;

use super::wire::Wire;
use super::{CAMPAIGN, DEADLINE, GRACE, LEASE, MARGIN, RENEW, at, millis, names, timings};
use crate::name::WorkName;
use crate::protocol::{Campaign, Request, Session, SessionId, Term};

pub(super) struct Work {
    pub(super) term: Term,
    pub(super) session: SessionId,
    /// When it will have ended, once it was told or returns.
    pub(super) ends: Option<u64>,
    /// When it returns by itself.
    pub(super) returns: u64,
    pub(super) told: Option<u64>,
    pub(super) lost: Option<u64>,
    /// Its fenced transaction, and when it commits.
    pub(super) open: Option<(u64, u64)>,
    /// When it begins the next one.
    pub(super) begins: u64,
}

pub(super) struct Replica {
    /// Its place.
    pub(super) index: usize,
    pub(super) campaign: Campaign,
    pub(super) wire: Option<Wire>,
    pub(super) wake: u64,
    /// It waits for hints.
    pub(super) hears: bool,
    /// What was announced meanwhile.
    pub(super) freed: Vec<WorkName>,
    pub(super) closed: bool,
    pub(super) rumour: u64,
    pub(super) frozen_until: u64,
    pub(super) works: BTreeMap<WorkName, Work>,
    /// When a work ended last.
    pub(super) ended: u64,
    /// The start of the last good renewal of each session.
    pub(super) good: BTreeMap<SessionId, u64>,
    /// Since when it has had no session.
    pub(super) without: Option<u64>,
    /// Lost sessions, and when.
    pub(super) lost: Vec<(SessionId, u64)>,
    /// Until then what went wrong here may slow it down.
    pub(super) disturbed: u64,
    pub(super) shut_down: Option<u64>,
    pub(super) started: u64,
    pub(super) statements: u64,
    pub(super) seed: u64,
}

impl Replica {
    /// Starts at `now` with a session that was just opened; `base` and what follows are its successors' ids.
    pub(super) fn start(index: usize, now: u64, id: SessionId, base: u128, seed: u64) -> Self {
        let mut next = 0;
        let fresh = move || {
            next += 1;
            SessionId::new(base + next)
        };
        let session = Session::opened(id, at(now));
        let rng = fastrand::Rng::with_seed(seed);
        Self {
            index,
            campaign: Campaign::new(timings(), names(), session, rng, fresh),
            wire: None,
            wake: now,
            hears: false,
            freed: Vec::new(),
            closed: false,
            rumour: now,
            frozen_until: 0,
            works: BTreeMap::new(),
            ended: 0,
            good: BTreeMap::new(),
            without: None,
            lost: Vec::new(),
            disturbed: now,
            shut_down: None,
            started: now,
            statements: 0,
            seed,
        }
    }

    pub(super) fn is_frozen(&self, now: u64) -> bool {
        now < self.frozen_until
    }

    /// Promise 4, which nobody but the watchdog keeps: when the process ends for works that still run.
    pub(super) fn exits(&self) -> Option<u64> {
        let exit = |work: &Work| {
            let good = self.good.get(&work.session).copied().unwrap_or_default();
            let loss = work.lost.unwrap_or(u64::MAX).min(good + DEADLINE);
            (loss + GRACE).min(good + LEASE - MARGIN)
        };
        self.works.values().map(exit).min()
    }

    /// What failed or took long keeps a replica from other things for a while.
    pub(super) fn failed(&mut self, request: &Request, started: u64, now: u64) {
        let quiet = match request {
            Request::Scan { .. }
            | Request::Reap { .. }
            | Request::Claim { .. }
            | Request::Held { .. }
            | Request::Release { .. } => CAMPAIGN,
            _ => 0,
        };
        self.disturbed = self.disturbed.max(now + quiet).max(started + RENEW);
    }

    /// When something happens next, if nothing new goes wrong. `reach` is when it can reach the database.
    pub(super) fn due(&self, now: u64, reach: u64) -> u64 {
        let mut due = u64::MAX;
        let mut consider = |moment: u64| due = due.min(moment);
        if let Some(wire) = &self.wire {
            wire.arrives.into_iter().for_each(&mut consider);
            wire.answers.into_iter().for_each(&mut consider);
        }
        if self.is_frozen(now) {
            consider(self.frozen_until);
            return due;
        }
        self.exits().into_iter().for_each(&mut consider);
        for work in self.works.values() {
            consider(work.ends.unwrap_or(work.returns));
            if let Some((_, commits)) = work.open {
                consider(commits.max(reach));
            } else if work.ends.is_none() {
                consider(work.begins.max(reach));
            }
        }
        match &self.wire {
            Some(wire) => consider(millis(wire.attempt.give_up)),
            None if self.hears => {
                consider(self.wake);
                consider(self.rumour);
                if self.closed || !self.freed.is_empty() {
                    consider(now);
                }
            }
            None => consider(self.wake),
        }
        due
    }
}
