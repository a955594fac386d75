//! The database of the simulation.

use std::collections::BTreeMap;

use super::fences::Fences;
use super::ms;
use crate::name::WorkName;
use crate::protocol::{Digest, Holder, Reply, Request, Scan, SessionId, Term, Vacancy};

/// The tables, each statement at one moment.
#[derive(Default)]
pub(super) struct Database {
    pub(super) sessions: BTreeMap<SessionId, u64>,
    pub(super) names: BTreeMap<WorkName, (Option<SessionId>, i64)>,
    /// The last term of each name, which no operator can delete.
    terms: BTreeMap<WorkName, i64>,
    pub(super) fences: Fences,
    /// How many of them standbys had ended.
    pub(super) ended: u64,
}

impl Database {
    pub(super) fn answer(&mut self, request: &Request, now: u64) -> Reply {
        let lease = 1_500;
        match request {
            Request::Prepare => Reply::Done,
            Request::Ensure { names } => {
                for name in names {
                    self.names.entry(name.clone()).or_default();
                }
                Reply::Done
            }
            Request::Open { id } => {
                self.sessions.insert(*id, now + lease);
                Reply::Done
            }
            Request::Renew { id } => {
                Reply::Renewed(self.sessions.get_mut(id).filter(|e| **e > now).map(|e| {
                    *e = now + lease;
                    let mut digest = Digest::default();
                    for (_, term) in self.names.values().filter(|(session, _)| *session == Some(*id)) {
                        digest.add(Term::new(*term));
                    }
                    digest
                }))
            }
            Request::Held { id } => Reply::Held(
                self.names
                    .iter()
                    .filter(|(_, (session, _))| *session == Some(*id))
                    .map(|(name, (_, term))| (name.clone(), Term::new(*term)))
                    .collect(),
            ),
            Request::Scan { id } => Reply::Scanned(self.scan(*id, now)),
            Request::Reap { ids } => {
                let dead = |id: &&SessionId| self.sessions.get(*id).is_some_and(|expires| *expires <= now);
                let reaped: Vec<SessionId> = ids.iter().filter(dead).copied().collect();
                self.sessions.retain(|id, _| !reaped.contains(id));
                Reply::Reaped(reaped)
            }
            Request::Claim { id, names, gone } => {
                let mut won = Vec::new();
                if self.sessions.get(id).is_some_and(|expires| *expires > now) {
                    for name in names {
                        let Some((session, term)) = self.names.get_mut(name) else { continue };
                        // I3
                        if self.fences.lock(name) {
                            continue;
                        }
                        if session.is_none_or(|holder| gone.contains(&holder)) {
                            *session = Some(*id);
                            *term = (*term + 1).max(i64::try_from(now).expect("small"));
                            let last = self.terms.insert(name.clone(), *term);
                            assert!(last.is_none_or(|last| last < *term), "I2: {name} {term} after {last:?}");
                            won.push((name.clone(), Term::new(*term)));
                        }
                    }
                }
                Reply::Claimed(won)
            }
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
