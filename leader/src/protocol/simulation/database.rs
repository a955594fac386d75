//! The database of the simulation.

use std::collections::{BTreeMap, BTreeSet};

use super::fences::Fences;
use super::{LEASE, ms};
use crate::name::WorkName;
use crate::protocol::{Digest, Hold, Holder, Reply, Request, Scan, SessionId, Term, Vacancy};

/// The tables, each statement at one moment.
#[derive(Default)]
pub(super) struct Database {
    pub(super) sessions: BTreeMap<SessionId, u64>,
    pub(super) names: BTreeMap<WorkName, (Option<SessionId>, i64)>,
    /// The last term of each name, which no operator can delete.
    terms: BTreeMap<WorkName, i64>,
    /// Every claim, and the session that made it.
    pub(super) claims: BTreeMap<Hold, SessionId>,
    /// Every session there ever was.
    opened: BTreeSet<SessionId>,
    /// Sessions of which a renewal was told that they are lost.
    pub(super) refused: BTreeSet<SessionId>,
    /// By how much its clock is ahead of the time of the simulation.
    pub(super) ahead: u64,
    pub(super) fences: Fences,
    /// How many of them standbys had ended.
    pub(super) ended: u64,
}

impl Database {
    pub(super) fn ahead(ahead: u64) -> Self {
        Self { ahead, ..Self::default() }
    }

    /// The answer, given at a moment of the simulation.
    pub(super) fn answer(&mut self, request: &Request, now: u64) -> Reply {
        let now = self.clock(now);
        match request {
            Request::Prepare => Reply::Done,
            Request::Ensure { names } => {
                for name in names {
                    self.names.entry(name.clone()).or_default();
                }
                Reply::Done
            }
            Request::Open { id } => {
                assert!(self.opened.insert(*id), "I6: the session {id} is opened again");
                self.sessions.insert(*id, now + LEASE);
                Reply::Done
            }
            Request::Renew { id } => {
                let Some(expires) = self.sessions.get_mut(id).filter(|expires| **expires > now) else {
                    self.refused.insert(*id);
                    return Reply::Renewed(None);
                };
                *expires = now + LEASE;
                let mut digest = Digest::default();
                for (_, term) in self.held(*id) {
                    digest.add(term);
                }
                Reply::Renewed(Some(digest))
            }
            Request::Held { id } => Reply::Held(self.held(*id)),
            Request::Scan { id } => Reply::Scanned(self.scan(*id, now)),
            Request::Reap { ids } => {
                let dead = |id: &&SessionId| self.sessions.get(*id).is_some_and(|expires| *expires <= now);
                let reaped: Vec<SessionId> = ids.iter().filter(dead).copied().collect();
                self.sessions.retain(|id, _| !reaped.contains(id));
                Reply::Reaped(reaped)
            }
            Request::Claim { id, names, gone } => Reply::Claimed(self.claim(*id, names, gone, now)),
            Request::Release { id, holds } => {
                let mut kept = Vec::new();
                for (name, given) in holds {
                    if let Some((session, term)) = self.names.get_mut(name)
                        && *session == Some(*id)
                        && *term == given.get()
                    {
                        if self.fences.lock(name) {
                            kept.push((name.clone(), *given));
                        } else {
                            *session = None;
                        }
                    }
                }
                Reply::Released { kept }
            }
            Request::EndFenced { fenced } => {
                let mut transactions = 0;
                for (name, session) in fenced {
                    assert!(!self.sessions.contains_key(session), "I8: the transaction of a live session");
                    transactions += self.fences.end_of(name, *session);
                }
                self.ended += transactions;
                Reply::FencedEnded { transactions }
            }
            Request::Close { id } => {
                self.sessions.remove(id);
                Reply::Done
            }
        }
    }

    fn claim(&mut self, id: SessionId, names: &[WorkName], gone: &[SessionId], now: u64) -> Vec<Hold> {
        let mut won = Vec::new();
        if self.sessions.get(&id).is_none_or(|expires| *expires <= now) {
            return won;
        }
        for name in names {
            let Some((session, term)) = self.names.get_mut(name) else { continue };
            // I3
            if self.fences.lock(name) {
                continue;
            }
            if session.is_none_or(|holder| gone.contains(&holder)) {
                if let Some(holder) = *session {
                    assert!(!self.sessions.contains_key(&holder), "I1: {name} is taken from {holder}");
                }
                *session = Some(id);
                *term = (*term + 1).max(i64::try_from(now).expect("small"));
                let last = self.terms.insert(name.clone(), *term);
                assert!(last.is_none_or(|last| last < *term), "I2: {name} {term} after {last:?}");
                let hold = (name.clone(), Term::new(*term));
                self.claims.insert(hold.clone(), id);
                won.push(hold);
            }
        }
        won
    }

    /// What it shows for the present.
    pub(super) fn clock(&self, now: u64) -> u64 {
        now + self.ahead
    }

    pub(super) fn held(&self, id: SessionId) -> Vec<Hold> {
        let held = self.names.iter().filter(|(_, (session, _))| *session == Some(id));
        held.map(|(name, (_, term))| (name.clone(), Term::new(*term))).collect()
    }

    /// Whether this is whose the name is.
    pub(super) fn is_held(&self, name: &WorkName, session: SessionId, term: Term) -> bool {
        self.names.get(name) == Some(&(Some(session), term.get()))
    }

    fn scan(&self, id: SessionId, now: u64) -> Scan {
        let vacancies = self.names.iter().filter_map(|(name, (session, _))| {
            let holder = match session.map(|session| (session, self.sessions.get(&session))) {
                None => None,
                Some((session, None)) => Some(Holder::Gone(session)),
                Some((session, Some(expires))) if *expires <= now => Some(Holder::Expired(session)),
                Some(_) => return None,
            };
            Some(Vacancy { name: name.clone(), holder })
        });
        let next = self.sessions.iter().filter(|(other, expires)| **other != id && **expires > now);
        Scan {
            vacancies: vacancies.collect(),
            expired: self
                .sessions
                .iter()
                .filter(|(_, e)| **e <= now)
                .map(|(id, _)| (*id, id.to_string()))
                .collect(),
            next_expiry: next.map(|(_, expires)| ms(expires - now)).min(),
            rows: self.names.len() as u64,
        }
    }
}
