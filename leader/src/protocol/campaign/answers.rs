//! What an answer changes.

use std::collections::{BTreeMap, BTreeSet};

use super::failures::Failures;
use super::hints::is_wanted;
use super::{Campaign, LOOK_AGAIN, Plan, Tables};
use crate::clock::Moment;
use crate::name::WorkName;
use crate::protocol::Ending;
use crate::protocol::messages::{Attempt, Effect, Failure, Loss, Reply, Request, Standing, Statement};
use crate::protocol::{Hold, Holder, Session, SessionId, Term};

impl Campaign {
    /// The answer to an attempt, or its failure. An answer that came after the attempt was given up changes nothing
    /// but that its outcome is not known (I5).
    pub(crate) fn answer(&mut self, attempt: Attempt, reply: Result<Reply, Failure>, now: Moment) {
        let reply = if now > attempt.give_up { Err(Failure::Unknown) } else { reply };
        self.expire(now);
        let started = attempt.started;
        match (attempt.request, reply) {
            (Request::Prepare, Ok(_)) => {
                self.tables = Tables::Unfilled;
            }
            (Request::Ensure { .. }, Ok(_)) => {
                self.failures.answered(Statement::Ensure);
                self.tables = Tables::Filled;
                self.rows = None;
            }
            (Request::Open { id }, Ok(_)) => {
                self.session = Some(Session::opened(id, started));
                self.effects.push(Effect::Trusted { session: id, good: started });
                self.scan_due = self.scan_due.min(now);
            }
            (Request::Prepare | Request::Ensure { .. } | Request::Open { .. }, Err(failure)) => {
                if failure == Failure::NoTables {
                    self.tables = Tables::Missing;
                }
                self.open_due = started + self.timings.renew;
                if self.session.is_some() {
                    self.note_failure(Statement::Ensure, now);
                }
            }
            (Request::Close { id }, reply) => self.closed(id, &reply, now),
            (request, reply) => {
                // Everything else speaks of a session; an answer about a lost one means nothing any more (I6).
                let of = match &request {
                    Request::Renew { id }
                    | Request::Held { id }
                    | Request::Scan { id }
                    | Request::Claim { id, .. }
                    | Request::Release { id, .. } => Some(*id),
                    _ => None,
                };
                if of.is_some() && of != self.session.map(|session| session.id) {
                    return;
                }
                if reply.as_ref().is_err_and(|failure| *failure == Failure::NoTables) {
                    self.tables = Tables::Missing;
                    self.lose(Loss::NoTables, now);
                    return;
                }
                // Renewals have a rhythm of their own, and so have requests to end transactions.
                if !matches!(request, Request::Renew { .. } | Request::EndFenced { .. }) {
                    match reply {
                        Ok(_) => self.failures.answered(request.statement()),
                        Err(_) => self.note_failure(request.statement(), now),
                    }
                }
                match request {
                    Request::Renew { .. } => self.renewed(started, &reply, now),
                    Request::Held { .. } => self.held(reply, now),
                    Request::Scan { .. } => self.scanned(started, reply, now),
                    Request::Reap { ids } => self.reaped(&ids, reply, now),
                    Request::Claim { names, .. } => self.claimed(&names, reply, now),
                    Request::Release { holds, .. } => self.released(&holds, reply, now),
                    Request::EndFenced { .. } => self.fenced_ended(&reply, now),
                    _ => unreachable!("answered above"),
                }
            }
        }
    }

    fn renewed(&mut self, started: Moment, reply: &Result<Reply, Failure>, now: Moment) {
        let Some(session) = &mut self.session else {
            return;
        };
        match reply {
            Ok(Reply::Renewed(Some(digest))) => {
                if !session.sound {
                    // The database did not answer, and does again.
                    self.failures = Failures::default();
                }
                session.renewed(started);
                let id = session.id;
                self.effects.push(Effect::Trusted { session: id, good: started });
                // Nothing else was on the wire since it was sent, so what is held now was held then (I5).
                if self.reconcile || *digest != self.expected(id) {
                    self.reconcile = true;
                    self.unconfirmed = Some(started);
                } else {
                    self.effects.push(Effect::Confirmed { started });
                }
            }
            Ok(_) => self.lose(Loss::Gone, now),
            Err(_) => session.unanswered(),
        }
    }

    /// Compares what runs here with what the database says this session holds.
    fn held(&mut self, reply: Result<Reply, Failure>, now: Moment) {
        let (Ok(Reply::Held(holds)), Some(session)) = (reply, self.session) else {
            return;
        };
        let mut holds: BTreeMap<WorkName, Term> = holds.into_iter().collect();
        for (name, standing) in &mut self.names {
            match *standing {
                Standing::Leading { session: held, term, .. } if held == session.id => {
                    if holds.get(name) == Some(&term) {
                        holds.remove(name);
                    } else {
                        *standing = Standing::Lost { session: held, term };
                        self.tables = Tables::Unfilled;
                        self.effects.push(Effect::End {
                            name: name.clone(),
                            term,
                            ending: Ending::LeaseLost,
                        });
                    }
                }
                Standing::Releasing { term, from, .. } => {
                    if holds.get(name) == Some(&term) {
                        holds.remove(name);
                    } else {
                        *standing = Standing::Standby { from };
                        self.effects.push(Effect::Released { name: name.clone(), term });
                    }
                }
                _ => {}
            }
        }
        self.orphans = holds.into_iter().collect();
        self.reconcile = false;
        self.release_due = self.release_due.min(now);
        if let Some(started) = self.unconfirmed.take() {
            self.effects.push(Effect::Confirmed { started });
        }
    }

    /// A renewal will tell whether the database answers at all.
    fn note_failure(&mut self, statement: Statement, now: Moment) {
        self.renew_now |= self.failures.failed(statement, now, &self.timings);
    }

    fn scanned(&mut self, started: Moment, reply: Result<Reply, Failure>, now: Moment) {
        self.scanned = started;
        let regular = self.timings.campaign + self.jitter(self.timings.campaign_jitter());
        self.scan_due = now + regular;
        let Ok(Reply::Scanned(scan)) = reply else {
            self.scan_due = now;
            return;
        };
        if let Some(left) = scan.next_expiry {
            let expiry = now + left + self.jitter(self.timings.expiry_jitter());
            self.scan_due = self.scan_due.min(expiry);
        }
        self.note_seen(&scan);
        if self.rows.replace(scan.rows).is_some_and(|rows| rows != scan.rows) {
            self.tables = Tables::Unfilled;
            self.scan_due = now;
        }
        let expired = scan.expired.into_iter().map(|(id, _)| id);
        let mut plan = Plan { reap: expired.collect(), ..Plan::default() };
        for vacancy in scan.vacancies {
            let wanted = is_wanted(&self.names, &vacancy.name, now);
            let holder = match vacancy.holder {
                None => None,
                Some(Holder::Gone(id)) => {
                    plan.gone.insert(id);
                    Some(id)
                }
                Some(Holder::Expired(id)) => Some(id),
            };
            if wanted {
                plan.claim.push((vacancy.name, holder));
            }
        }
        if self.shutdown.is_none() {
            self.plan = plan;
        }
    }

    fn reaped(&mut self, asked: &[SessionId], reply: Result<Reply, Failure>, now: Moment) {
        let Ok(Reply::Reaped(reaped)) = reply else {
            self.scan_due = self.scan_due.min(now + LOOK_AGAIN);
            return;
        };
        if reaped.len() < asked.len() {
            self.scan_due = self.scan_due.min(now + LOOK_AGAIN);
        }
        for id in reaped {
            self.lost.retain(|lost| *lost != id);
            let instance = self.former.get(&id).cloned();
            self.effects.push(Effect::Reaped { session: id, instance });
            self.plan.gone.insert(id);
        }
    }

    fn claimed(&mut self, asked: &[WorkName], reply: Result<Reply, Failure>, now: Moment) {
        let (Ok(Reply::Claimed(won)), Some(session)) = (reply, self.session) else {
            self.reconcile = true;
            self.plan = Plan::default();
            self.scan_due = self.scan_due.min(now + LOOK_AGAIN);
            return;
        };
        if won.len() < asked.len() {
            self.scan_due = self.scan_due.min(now + LOOK_AGAIN);
        }
        if !won.is_empty() {
            self.announced.proved(now);
        }
        self.note_refused(&won, now);
        for (name, term) in won {
            let standing = self.names.get_mut(&name);
            match standing {
                // Not one statement of the work before its claim is known to be committed (I4), which it is now.
                Some(standing @ Standing::Standby { .. }) if self.shutdown.is_none() => {
                    *standing = Standing::Leading { session: session.id, term, told: None };
                    self.effects.push(Effect::Elected { name, term, session: session.id });
                }
                _ => self.orphans.push((name, term)),
            }
        }
    }

    fn released(&mut self, asked: &[Hold], reply: Result<Reply, Failure>, now: Moment) {
        let Ok(Reply::Released { kept }) = reply else {
            self.reconcile = true;
            return;
        };
        if !kept.is_empty() {
            self.release_due = now + LOOK_AGAIN;
        }
        let kept: BTreeSet<&Hold> = kept.iter().collect();
        let given: BTreeSet<&Hold> = asked.iter().filter(|hold| !kept.contains(hold)).collect();
        self.orphans.retain(|orphan| !given.contains(orphan));
        for (name, given) in given {
            if let Some(standing) = self.names.get_mut(name)
                && let Standing::Releasing { term, from, .. } = *standing
                && term == *given
            {
                *standing = Standing::Standby { from };
                self.effects.push(Effect::Released { name: name.clone(), term });
            }
        }
    }

    fn fenced_ended(&mut self, reply: &Result<Reply, Failure>, now: Moment) {
        if let Ok(Reply::FencedEnded { transactions: transactions @ 1.. }) = *reply {
            self.effects.push(Effect::FencedEnded { transactions });
            self.scan_due = self.scan_due.min(now);
        }
    }

    fn closed(&mut self, id: SessionId, reply: &Result<Reply, Failure>, now: Moment) {
        match reply {
            Ok(_) => {}
            // There is nothing left to close.
            Err(Failure::NoTables) => self.tables = Tables::Missing,
            // Closing again is harmless, and a session that expires frees its names too.
            Err(Failure::Unknown) => return self.note_failure(Statement::Close, now),
        }
        self.failures.answered(Statement::Close);
        self.lost.retain(|lost| *lost != id);
        if self.session.is_none_or(|session| session.id != id) {
            return;
        }
        self.session = None;
        for (name, standing) in &mut self.names {
            if let Standing::Releasing { term, from, .. } = *standing {
                *standing = Standing::Standby { from };
                self.effects.push(Effect::Released { name: name.clone(), term });
            }
        }
    }
}
