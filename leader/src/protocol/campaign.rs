//! Events in, actions out: which statement a replica sends next, and which tenures begin and end.

mod answers;
mod failures;
mod fenced;
mod hints;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::name::WorkName;
use crate::protocol::Ending;
use crate::protocol::messages::{Attempt, Effect, Loss, Next, Request, Standing, Statement};
use crate::protocol::{Digest, Hold, Session, SessionId, Term};
use crate::timings::Timings;

use failures::Failures;
pub(crate) use fenced::Fenced;
use fenced::Refused;
use hints::Announced;

/// How soon a standby looks again at a name that it could not have although nobody alive holds it: another standby was
/// faster, or a fenced transaction of a process that is gone or frozen still locks its row (I3, I8).
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A replica's side of the protocol.
///
/// The driver asks [`next`](Self::next) what to do, does it, and reports the answer with [`answer`](Self::answer); works
/// that end and wishes of people come in between. What must happen to tenures comes out of
/// [`effects`](Self::effects).
pub(crate) struct Campaign {
    timings: Timings,
    names: BTreeMap<WorkName, Standing>,
    session: Option<Session>,
    /// Lost sessions that may still have a row. Each is closed once every work of it has ended (I6).
    lost: Vec<SessionId>,
    /// Names won by a claim whose answer was lost: to be released, never adopted (I7).
    orphans: Vec<Hold>,
    /// What this replica holds must be read: a digest differed, or the outcome of a claim or a release is not known.
    reconcile: bool,
    tables: Tables,
    /// How many names had a row at the last look.
    rows: Option<u64>,
    plan: Plan,
    announced: Announced,
    /// The names of the last claim that were somebody's, and whose.
    claimed_from: Vec<(WorkName, SessionId)>,
    refused: BTreeMap<WorkName, Refused>,
    /// The replicas of sessions that have expired.
    former: BTreeMap<SessionId, Arc<str>>,
    /// The start of the last scan.
    scanned: Moment,
    scan_due: Moment,
    open_due: Moment,
    failures: Failures,
    release_due: Moment,
    /// The start of the last renewal whose digest still has to be reconciled.
    unconfirmed: Option<Moment>,
    renew_now: bool,
    /// The last statement was a renewal that was not due.
    renewed_early: bool,
    shutdown: Option<Shutdown>,
    effects: Vec<Effect>,
    rng: fastrand::Rng,
    fresh: Box<dyn FnMut() -> SessionId + Send>,
}

/// What is known of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    Missing,
    /// They are there, and maybe not every name has its row.
    Unfilled,
    Filled,
}

/// What the last scan leaves to do.
#[derive(Default)]
struct Plan {
    reap: Vec<SessionId>,
    /// Names to claim, with the session that must be gone first.
    claim: Vec<(WorkName, Option<SessionId>)>,
    /// Sessions known to be gone (I1).
    gone: BTreeSet<SessionId>,
}

impl Plan {
    /// Whether a name that points to this session, or to none, can be claimed.
    fn is_free(&self, holder: Option<SessionId>) -> bool {
        holder.is_none_or(|holder| self.gone.contains(&holder))
    }
}

#[derive(Clone, Copy)]
struct Shutdown {
    /// When the last statements are given up; set once every work has ended.
    close_by: Option<Moment>,
}

impl Campaign {
    /// A campaign for `names` under a session that was just opened; `fresh` makes the ids of its successors.
    pub(crate) fn new(
        timings: Timings,
        names: impl IntoIterator<Item = WorkName>,
        session: Session,
        rng: fastrand::Rng,
        fresh: impl FnMut() -> SessionId + Send + 'static,
    ) -> Self {
        let start = session.good;
        let names = names.into_iter().map(|name| (name, Standing::Standby { from: start })).collect();
        Self {
            timings,
            names,
            session: Some(session),
            lost: Vec::new(),
            orphans: Vec::new(),
            reconcile: false,
            tables: Tables::Filled,
            rows: None,
            plan: Plan::default(),
            announced: Announced::none(start),
            claimed_from: Vec::new(),
            refused: BTreeMap::new(),
            former: BTreeMap::new(),
            scanned: start,
            scan_due: start,
            open_due: start,
            failures: Failures::default(),
            release_due: start,
            unconfirmed: None,
            renew_now: false,
            renewed_early: false,
            shutdown: None,
            effects: vec![Effect::Trusted { session: session.id, good: session.good }],
            rng,
            fresh: Box::new(fresh),
        }
    }

    /// What to do at `now`.
    pub(crate) fn next(&mut self, now: Moment) -> Next {
        self.expire(now);
        if let Some(request) = self.choose(now) {
            let give_up = self.give_up(&request, now);
            self.renewed_early = false;
            if let (Request::Renew { .. }, Some(session)) = (&request, &mut self.session) {
                // One that is not due keeps the rhythm: an outage makes all replicas ask at one moment.
                self.renewed_early = now < session.renewal_due(&self.timings);
                if !self.renewed_early {
                    session.trying(now);
                }
                self.renew_now = false;
            }
            return Next::Send(Attempt { request, started: now, give_up });
        }
        if self.finished(now) {
            if self.session.is_some() || !self.lost.is_empty() {
                self.effects.push(Effect::NotClosed);
            }
            return Next::Done;
        }
        Next::Wait {
            until: self.wake_at(now),
            hints: self.session.is_some() && self.shutdown.is_none() && self.scan_at().is_some(),
        }
    }

    /// The work of a tenure has ended: its future returned, panicked or was dropped, and so did its tasks.
    pub(crate) fn work_ended(&mut self, name: &WorkName, of: Term, now: Moment) {
        let from = now + self.timings.campaign + self.jitter(self.timings.campaign_jitter());
        let Some(standing) = self.names.get_mut(name) else {
            return;
        };
        match *standing {
            Standing::Leading { session, term, .. } if term == of => {
                *standing = Standing::Releasing { session, term, from };
                self.release_due = self.release_due.min(now);
            }
            Standing::Lost { term, .. } if term == of => {
                *standing = Standing::Standby { from };
                // Nothing is left to give back, which is what somebody may wait for.
                self.effects.push(Effect::Released { name: name.clone(), term });
            }
            _ => {}
        }
    }

    /// Asks the work of a name to end, if one runs here; the term whose release to wait for.
    pub(crate) fn step_down(&mut self, name: &WorkName) -> Option<Term> {
        self.tell(name, Ending::SteppedDown)
    }

    /// A tenure noticed by itself that its deadline has passed.
    pub(crate) fn overdue(&mut self, now: Moment) {
        self.expire(now);
    }

    /// Asks every work to end; once all have, the session is closed. Whether that is news.
    pub(crate) fn shut_down(&mut self) -> bool {
        if self.shutdown.is_some() {
            return false;
        }
        self.shutdown = Some(Shutdown { close_by: None });
        self.plan = Plan::default();
        self.announced.clear();
        self.forget_refused();
        let names: Vec<WorkName> = self.names.keys().cloned().collect();
        for name in names {
            self.tell(&name, Ending::ShuttingDown);
        }
        true
    }

    /// Asks for a renewal at once, whose answer becomes an [`Effect::Confirmed`].
    pub(crate) fn confirm(&mut self) {
        self.renew_now = true;
    }

    /// What must happen outside the protocol, in order.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (&WorkName, &Standing)> {
        self.names.iter()
    }

    fn tell(&mut self, name: &WorkName, ending: Ending) -> Option<Term> {
        let (term, told) = match self.names.get_mut(name)? {
            Standing::Leading { term, told, .. } => (term, told),
            // On its way already.
            Standing::Releasing { term, .. } | Standing::Lost { term, .. } => return Some(*term),
            Standing::Standby { .. } => return None,
        };
        if told.is_none() {
            *told = Some(ending);
            self.effects.push(Effect::End { name: name.clone(), term: *term, ending });
        }
        Some(*term)
    }

    /// Gives the session up when its deadline has passed, whether or not a statement is on the wire (I5).
    fn expire(&mut self, now: Moment) {
        if self.session.is_some_and(|session| now >= session.deadline(&self.timings)) {
            self.lose(Loss::Deadline, now);
        }
    }

    fn lose(&mut self, why: Loss, now: Moment) {
        let Some(session) = self.session.take() else {
            return;
        };
        let from = now + self.timings.campaign + self.jitter(self.timings.campaign_jitter());
        self.effects.push(Effect::SessionLost { session: session.id, why });
        for (name, standing) in &mut self.names {
            match *standing {
                Standing::Leading { session: held, term, .. } if held == session.id => {
                    *standing = Standing::Lost { session: held, term };
                    self.effects.push(Effect::End { name: name.clone(), term, ending: Ending::LeaseLost });
                }
                Standing::Releasing { term, .. } => {
                    *standing = Standing::Standby { from };
                    self.effects.push(Effect::Released { name: name.clone(), term });
                }
                _ => {}
            }
        }
        self.lost.push(session.id);
        self.orphans.clear();
        self.plan = Plan::default();
        self.announced.clear();
        self.forget_refused();
        self.reconcile = false;
        self.unconfirmed = None;
        self.failures = Failures::default();
        self.open_due = now;
    }

    fn choose(&mut self, now: Moment) -> Option<Request> {
        let Some(session) = self.session else {
            return self.choose_without_session(now);
        };
        let id = session.id;
        if self.idle() {
            let by = self.close_by(now);
            return (now < by && self.may(Statement::Close, now)).then_some(Request::Close { id });
        }
        // Works that ask for confirmation without end must not keep everything else from being sent.
        let asked = self.renew_now && !self.renewed_early;
        if asked || now >= session.renewal_due(&self.timings) {
            return Some(Request::Renew { id });
        }
        // After a renewal that failed the next thing to know is whether the database answers at all.
        let other = if session.sound { self.choose_other(id, now) } else { None };
        other.or_else(|| self.renew_now.then_some(Request::Renew { id }))
    }

    /// What is due beside renewals.
    fn choose_other(&mut self, id: SessionId, now: Moment) -> Option<Request> {
        if self.reconcile && self.may(Statement::Held, now) {
            return Some(Request::Held { id });
        }
        if now >= self.release_due && self.may(Statement::Release, now) {
            let holds = self.to_release();
            if !holds.is_empty() {
                return Some(Request::Release { id, holds });
            }
        }
        if let Some(close) = self.close_lost(now) {
            return Some(close);
        }
        if self.shutdown.is_some() || self.reconcile {
            return None;
        }
        if self.tables != Tables::Filled && self.may(Statement::Ensure, now) {
            return Some(self.ensure());
        }
        if !self.plan.reap.is_empty() && self.may(Statement::Reap, now) {
            let ids = std::mem::take(&mut self.plan.reap);
            return Some(Request::Reap { ids });
        }
        if self.may(Statement::Claim, now) {
            let claim = self.planned_claim(id).or_else(|| self.announced_claim(id, now));
            if claim.is_some() {
                return claim;
            }
        }
        if self.scan_at().is_some_and(|at| at <= now) && self.may(Statement::Scan, now) {
            return Some(Request::Scan { id });
        }
        // After the look, which alone tells whether it is still called for.
        self.end_fenced(now)
    }

    /// Whether the last failure of such a statement is long enough ago.
    fn may(&self, statement: Statement, now: Moment) -> bool {
        self.failures.after_quiet(statement, now) <= now
    }

    fn choose_without_session(&mut self, now: Moment) -> Option<Request> {
        if self.shutdown.is_some() {
            if !self.idle() {
                return None;
            }
            let by = self.close_by(now);
            return if now < by { self.close_lost(now) } else { None };
        }
        if now < self.open_due {
            return None;
        }
        Some(match self.tables {
            Tables::Missing => Request::Prepare,
            Tables::Unfilled => self.ensure(),
            Tables::Filled => Request::Open { id: (self.fresh)() },
        })
    }

    fn ensure(&self) -> Request {
        Request::Ensure {
            // In the order of their bytes: two replicas that insert in different orders deadlock.
            names: self.names.keys().cloned().collect(),
        }
    }

    /// The shutdown has nothing left to wait for.
    fn idle(&self) -> bool {
        self.shutdown.is_some()
            && !self
                .names
                .values()
                .any(|standing| matches!(standing, Standing::Leading { .. } | Standing::Lost { .. }))
    }

    fn close_by(&mut self, now: Moment) -> Moment {
        let release = self.timings.release;
        let Some(shutdown) = &mut self.shutdown else { return now };
        *shutdown.close_by.get_or_insert_with(|| {
            // What failed before was about something else.
            self.failures = Failures::default();
            now + release
        })
    }

    fn to_release(&self) -> Vec<Hold> {
        let ended = self.names.iter().filter_map(|(name, standing)| match standing {
            Standing::Releasing { term, .. } => Some((name.clone(), *term)),
            _ => None,
        });
        ended.chain(self.orphans.iter().cloned()).collect()
    }

    /// Closes a lost session of which no work runs any more (I6).
    fn close_lost(&self, now: Moment) -> Option<Request> {
        let id = self.to_close().filter(|_| self.may(Statement::Close, now))?;
        Some(Request::Close { id })
    }

    fn to_close(&self) -> Option<SessionId> {
        self.lost.iter().copied().find(|id| {
            !self
                .names
                .values()
                .any(|standing| matches!(standing, Standing::Lost { session, .. } if session == id))
        })
    }

    fn planned_claim(&mut self, id: SessionId) -> Option<Request> {
        let plan = &mut self.plan;
        let claim = std::mem::take(&mut plan.claim);
        let (mut free, held): (Vec<_>, Vec<_>) =
            claim.into_iter().partition(|(_, holder)| plan.is_free(*holder));
        // What was not reaped is for the next scan, unless the reap is still to be sent.
        if !plan.reap.is_empty() {
            plan.claim = held;
        }
        // A work that runs here by now is not campaigned for a second time.
        free.retain(|(name, _)| matches!(self.names.get(name), Some(Standing::Standby { .. })));
        self.claimed_from =
            free.iter().filter_map(|(name, holder)| Some((name.clone(), (*holder)?))).collect();
        let names: Vec<WorkName> = free.into_iter().map(|(name, _)| name).collect();
        let gone = self.plan.gone.iter().copied().collect();
        (!names.is_empty()).then_some(Request::Claim { id, names, gone })
    }

    /// When the next scan is due, if any name is campaigned for.
    fn scan_at(&self) -> Option<Moment> {
        self.names
            .values()
            .filter_map(|standing| match *standing {
                Standing::Standby { from } if from > self.scanned => Some(from),
                Standing::Standby { .. } => Some(self.scan_due),
                _ => None,
            })
            .min()
    }

    fn give_up(&self, request: &Request, now: Moment) -> Moment {
        let attempt = now + self.timings.attempt();
        let closing = self.shutdown.and_then(|shutdown| shutdown.close_by);
        match (request, &self.session, closing) {
            (Request::Close { .. }, _, Some(by)) => attempt.min(by),
            (Request::Renew { .. }, Some(session), _) => session.give_up_renewal(now, &self.timings),
            (Request::Release { .. }, Some(session), _) => {
                session.give_up(now, &self.timings).min(now + self.timings.release)
            }
            (_, Some(session), _) => session.give_up(now, &self.timings),
            (_, None, _) => attempt,
        }
    }

    fn finished(&self, now: Moment) -> bool {
        let Some(Shutdown { close_by: Some(by) }) = self.shutdown else {
            return false;
        };
        self.idle() && (now >= by || (self.session.is_none() && self.lost.is_empty()))
    }

    fn wake_at(&self, now: Moment) -> Moment {
        let mut soonest = now + self.timings.campaign;
        let mut consider = |moment: Moment| soonest = soonest.min(moment);
        if let Some(by) = self.shutdown.and_then(|shutdown| shutdown.close_by) {
            // Nothing is left to do but to close.
            consider(by);
            let close = self.failures.after_quiet(Statement::Close, now);
            if close > now {
                consider(close);
            }
            return soonest;
        }
        if let Some(session) = &self.session {
            consider(session.renewal_due(&self.timings));
            consider(session.deadline(&self.timings));
            if session.sound {
                self.consider_other(now, &mut consider);
            }
        } else if self.shutdown.is_none() {
            consider(self.open_due);
        }
        soonest
    }

    /// When something is due beside renewals.
    fn consider_other(&self, now: Moment, mut consider: impl FnMut(Moment)) {
        let mut due = |statement, due| consider(self.failures.after_quiet(statement, due));
        if self.reconcile {
            due(Statement::Held, now);
        }
        if !self.to_release().is_empty() {
            due(Statement::Release, self.release_due);
        }
        if self.to_close().is_some() {
            due(Statement::Close, now);
        }
        if self.shutdown.is_some() || self.reconcile {
            return;
        }
        if self.tables != Tables::Filled {
            due(Statement::Ensure, now);
        }
        if !self.plan.reap.is_empty() {
            due(Statement::Reap, now);
        }
        if self.plan.claim.iter().any(|(_, holder)| self.plan.is_free(*holder)) {
            due(Statement::Claim, now);
        }
        if let Some(at) = self.announced.due() {
            due(Statement::Claim, at);
        }
        if let Some(at) = self.scan_at() {
            due(Statement::Scan, at);
        }
    }

    fn jitter(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    fn expected(&self, session: SessionId) -> Digest {
        let mut digest = Digest::default();
        for standing in self.names.values() {
            match *standing {
                Standing::Leading { session: held, term, .. }
                | Standing::Releasing { session: held, term, .. }
                    if held == session =>
                {
                    digest.add(term);
                }
                _ => {}
            }
        }
        for (_, term) in &self.orphans {
            digest.add(*term);
        }
        digest
    }
}
