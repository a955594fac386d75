//! Events in, actions out: which statement a replica sends next, and which tenures begin and end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::clock::Moment;
use crate::name::WorkName;
use crate::protocol::{Digest, Hold, Holder, Scan, Session, SessionId, Term};
use crate::tenure::Ending;
use crate::timings::Timings;

/// How soon a standby looks again at a name that it could not have although nobody alive holds it: another standby was
/// faster, or a fenced transaction of a process that is gone or frozen still locks its row (I3, I8).
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The least time between two looks that nothing but hints ask for.
const HINT_PAUSE: Duration = Duration::from_millis(10);

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
    /// Whether the tables are there, and every name has its row.
    prepared: bool,
    ensured: bool,
    /// How many names had a row at the last look.
    rows: Option<u64>,
    plan: Plan,
    /// The start of the last scan.
    scanned: Moment,
    scan_due: Moment,
    open_due: Moment,
    /// After a failure nothing but renewals is sent until then.
    quiet_until: Moment,
    release_due: Moment,
    close_due: Moment,
    /// The start of the last renewal whose digest still has to be reconciled.
    unconfirmed: Option<Moment>,
    renew_now: bool,
    shutdown: Option<Shutdown>,
    effects: Vec<Effect>,
    rng: fastrand::Rng,
    fresh: Box<dyn FnMut() -> SessionId + Send>,
}

/// Where a replica stands with one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It campaigns, from this moment on.
    Standby { from: Moment },
    /// Its work runs; `told` once it was asked to end.
    Leading {
        session: SessionId,
        term: Term,
        told: Option<Ending>,
    },
    /// The work has ended and the name is still to be given back.
    Releasing {
        session: SessionId,
        term: Term,
        from: Moment,
    },
    /// The lease is lost and the work still runs: nothing is campaigned for (I4).
    Lost { session: SessionId, term: Term },
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

#[derive(Clone, Copy)]
struct Shutdown {
    /// When the last statements are given up; set once every work has ended.
    close_by: Option<Moment>,
}

/// A statement to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Create the tables, or check that they are there.
    Prepare,
    /// Give each name a row.
    Ensure { names: Vec<WorkName> },
    Open { id: SessionId },
    Renew { id: SessionId },
    /// What the session holds.
    Held { id: SessionId },
    Scan { id: SessionId },
    Reap { ids: Vec<SessionId> },
    Claim {
        id: SessionId,
        names: Vec<WorkName>,
        gone: Vec<SessionId>,
    },
    Release { id: SessionId, holds: Vec<Hold> },
    Close { id: SessionId },
}

/// A statement on the wire.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) request: Request,
    pub(crate) started: Moment,
    pub(crate) give_up: Moment,
}

/// The database's answer to a [`Request`].
#[derive(Debug)]
pub(crate) enum Reply {
    /// To prepare, ensure, open and close.
    Done,
    /// To a renewal: what the session holds, or nothing if it is lost.
    Renewed(Option<Digest>),
    Held(Vec<Hold>),
    Scanned(Scan),
    Reaped(Vec<SessionId>),
    Claimed(Vec<Hold>),
    /// To a release: those that could not be given back yet.
    Released { kept: Vec<Hold> },
}

/// No good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The attempt failed or was given up; what it did is not known.
    Unknown,
    /// The tables are not there.
    NoTables,
}

/// What the driver does next.
#[derive(Debug)]
pub(crate) enum Next {
    Send(Attempt),
    /// Wait until then, or for a hint that names may be free if `hints`.
    Wait { until: Moment, hints: bool },
    /// The shutdown is complete.
    Done,
}

/// What must happen outside the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A session was opened or renewed by the attempt that began at `good`.
    Trusted { session: SessionId, good: Moment },
    SessionLost { session: SessionId, why: Loss },
    /// A claim is known to be committed: the work starts.
    Elected {
        name: WorkName,
        term: Term,
        session: SessionId,
    },
    /// The work is told that its tenure is over.
    End {
        name: WorkName,
        term: Term,
        ending: Ending,
    },
    /// The name was given back, or could not be because it is no longer ours.
    Released { name: WorkName, term: Term },
    /// What was held at `started` is what runs here.
    Confirmed { started: Moment },
    /// Another replica's session was found dead.
    Reaped { session: SessionId },
    /// The shutdown could not tell the database; the names move when the session expires.
    NotClosed,
}

/// Why a session or a name is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No renewal succeeded before the deadline.
    Deadline,
    /// The session has no row any more, or one that has expired.
    Gone,
    /// The tables are not there.
    NoTables,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "no renewal succeeded before the deadline",
            Self::Gone => "the database says that the session has expired or was deleted",
            Self::NoTables => "the tables are gone",
        })
    }
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
        let names = names
            .into_iter()
            .map(|name| (name, Standing::Standby { from: start }))
            .collect();
        Self {
            timings,
            names,
            session: Some(session),
            lost: Vec::new(),
            orphans: Vec::new(),
            reconcile: false,
            prepared: true,
            ensured: true,
            rows: None,
            plan: Plan::default(),
            scanned: start,
            scan_due: start,
            open_due: start,
            quiet_until: start,
            release_due: start,
            close_due: start,
            unconfirmed: None,
            renew_now: false,
            shutdown: None,
            effects: vec![Effect::Trusted {
                session: session.id,
                good: session.good,
            }],
            rng,
            fresh: Box::new(fresh),
        }
    }

    /// What to do at `now`.
    pub(crate) fn next(&mut self, now: Moment) -> Next {
        self.expire(now);
        if let Some(request) = self.choose(now) {
            let give_up = self.give_up(&request, now);
            if let (Request::Renew { .. }, Some(session)) = (&request, &mut self.session) {
                session.trying(now);
                self.renew_now = false;
            }
            return Next::Send(Attempt {
                request,
                started: now,
                give_up,
            });
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

    /// The answer to an attempt, or its failure. An answer that came after the attempt was given up changes nothing
    /// but that its outcome is not known (I5).
    pub(crate) fn answer(&mut self, attempt: Attempt, reply: Result<Reply, Failure>, now: Moment) {
        let reply = if now > attempt.give_up {
            Err(Failure::Unknown)
        } else {
            reply
        };
        self.expire(now);
        let started = attempt.started;
        match (attempt.request, reply) {
            (Request::Prepare, Ok(_)) => {
                self.prepared = true;
                self.ensured = false;
            }
            (Request::Ensure { .. }, Ok(_)) => {
                self.ensured = true;
                self.rows = None;
            }
            (Request::Open { id }, Ok(_)) => {
                self.session = Some(Session::opened(id, started));
                self.effects.push(Effect::Trusted {
                    session: id,
                    good: started,
                });
                self.scan_due = self.scan_due.min(now);
            }
            (Request::Prepare | Request::Ensure { .. } | Request::Open { .. }, Err(failure)) => {
                self.prepared &= failure != Failure::NoTables;
                self.open_due = started + self.timings.renew;
                self.quiet_until = self.open_due;
            }
            (Request::Close { id }, reply) => self.closed(id, reply, started),
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
                    self.prepared = false;
                    self.lose(Loss::NoTables, now);
                    return;
                }
                match request {
                    Request::Renew { .. } => self.renewed(started, reply, now),
                    Request::Held { .. } => self.held(reply, now),
                    Request::Scan { .. } => self.scanned(started, reply, now),
                    Request::Reap { ids } => self.reaped(&ids, reply, now),
                    Request::Claim { names, .. } => self.claimed(&names, reply, now),
                    Request::Release { holds, .. } => self.released(&holds, reply, now),
                    _ => unreachable!("answered above"),
                }
            }
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
                *standing = Standing::Releasing {
                    session,
                    term,
                    from,
                };
                self.release_due = self.release_due.min(now);
            }
            Standing::Lost { term, .. } if term == of => {
                *standing = Standing::Standby { from };
                // Nothing is left to give back, which is what somebody may wait for.
                self.effects.push(Effect::Released {
                    name: name.clone(),
                    term,
                });
            }
            _ => {}
        }
    }

    /// Asks the work of a name to end; whether one runs here that was not asked before.
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
        let names: Vec<WorkName> = self.names.keys().cloned().collect();
        for name in names {
            self.tell(&name, Ending::ShuttingDown);
        }
        true
    }

    /// A hint that a name may be free.
    pub(crate) fn hint(&mut self, now: Moment) {
        let due = now.max(self.scanned + HINT_PAUSE);
        self.scan_due = self.scan_due.min(due);
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
        let Some(Standing::Leading { term, told, .. }) = self.names.get_mut(name) else {
            return None;
        };
        if told.is_none() {
            *told = Some(ending);
            self.effects.push(Effect::End {
                name: name.clone(),
                term: *term,
                ending,
            });
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
        self.effects.push(Effect::SessionLost {
            session: session.id,
            why,
        });
        for (name, standing) in &mut self.names {
            match *standing {
                Standing::Leading {
                    session: held,
                    term,
                    ..
                } if held == session.id => {
                    *standing = Standing::Lost {
                        session: held,
                        term,
                    };
                    self.effects.push(Effect::End {
                        name: name.clone(),
                        term,
                        ending: Ending::LeaseLost,
                    });
                }
                Standing::Releasing { term, .. } => {
                    *standing = Standing::Standby { from };
                    self.effects.push(Effect::Released {
                        name: name.clone(),
                        term,
                    });
                }
                _ => {}
            }
        }
        self.lost.push(session.id);
        self.orphans.clear();
        self.plan = Plan::default();
        self.reconcile = false;
        self.unconfirmed = None;
        self.open_due = now;
        self.close_due = now;
    }

    fn choose(&mut self, now: Moment) -> Option<Request> {
        let Some(session) = self.session else {
            return self.choose_without_session(now);
        };
        let id = session.id;
        if self.idle() {
            let by = self.close_by(now);
            return (now < by && now >= self.close_due).then_some(Request::Close { id });
        }
        if self.renew_now || now >= session.renewal_due(&self.timings) {
            return Some(Request::Renew { id });
        }
        if !session.sound || now < self.quiet_until {
            // The next thing to know is whether the database answers at all.
            return None;
        }
        if self.reconcile {
            return Some(Request::Held { id });
        }
        if now >= self.release_due {
            let holds = self.to_release();
            if !holds.is_empty() {
                return Some(Request::Release { id, holds });
            }
        }
        if let Some(id) = self.to_close(now) {
            return Some(Request::Close { id });
        }
        if self.shutdown.is_some() {
            return None;
        }
        if !self.ensured {
            return Some(self.ensure());
        }
        if !self.plan.reap.is_empty() {
            let ids = std::mem::take(&mut self.plan.reap);
            return Some(Request::Reap { ids });
        }
        if let Some(claim) = self.planned_claim(id) {
            return Some(claim);
        }
        (self.scan_at()? <= now).then_some(Request::Scan { id })
    }

    fn choose_without_session(&mut self, now: Moment) -> Option<Request> {
        if self.shutdown.is_some() {
            if !self.idle() {
                return None;
            }
            let by = self.close_by(now);
            return if now < by {
                self.to_close(now).map(|id| Request::Close { id })
            } else {
                None
            };
        }
        if now < self.open_due {
            return None;
        }
        if !self.prepared {
            return Some(Request::Prepare);
        }
        if !self.ensured {
            return Some(self.ensure());
        }
        Some(Request::Open {
            id: (self.fresh)(),
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
        match &mut self.shutdown {
            Some(shutdown) => *shutdown.close_by.get_or_insert(now + release),
            None => now,
        }
    }

    fn to_release(&self) -> Vec<Hold> {
        let ended = self.names.iter().filter_map(|(name, standing)| match standing {
            Standing::Releasing { term, .. } => Some((name.clone(), *term)),
            _ => None,
        });
        ended.chain(self.orphans.iter().cloned()).collect()
    }

    /// A lost session of which no work runs any more (I6).
    fn to_close(&self, now: Moment) -> Option<SessionId> {
        if now < self.close_due {
            return None;
        }
        self.lost.iter().copied().find(|id| {
            !self
                .names
                .values()
                .any(|standing| matches!(standing, Standing::Lost { session, .. } if session == id))
        })
    }

    fn planned_claim(&mut self, id: SessionId) -> Option<Request> {
        let plan = std::mem::take(&mut self.plan);
        let names: Vec<WorkName> = plan
            .claim
            .into_iter()
            .filter(|(_, holder)| holder.is_none_or(|holder| plan.gone.contains(&holder)))
            .map(|(name, _)| name)
            // A work may have been registered for shutdown or lost its row since the scan.
            .filter(|name| matches!(self.names.get(name), Some(Standing::Standby { .. })))
            .collect();
        (!names.is_empty()).then(|| Request::Claim {
            id,
            names,
            gone: plan.gone.into_iter().collect(),
        })
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
        match (request, &self.session) {
            (Request::Close { .. }, _) if closing.is_some() => {
                attempt.min(closing.unwrap_or(attempt))
            }
            (Request::Renew { .. }, Some(session)) => session.give_up_renewal(now, &self.timings),
            (Request::Release { .. }, Some(session)) => session
                .give_up(now, &self.timings)
                .min(now + self.timings.release),
            (_, Some(session)) => session.give_up(now, &self.timings),
            (_, None) => attempt,
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
        if let Some(session) = &self.session {
            consider(session.renewal_due(&self.timings));
            consider(session.deadline(&self.timings));
            if session.sound {
                let after_quiet = |moment: Moment| moment.max(self.quiet_until);
                if self.shutdown.is_none() {
                    self.scan_at().map(after_quiet).map(&mut consider);
                }
                if !self.to_release().is_empty() {
                    consider(after_quiet(self.release_due));
                }
                if self.reconcile || (!self.ensured && self.shutdown.is_none()) {
                    consider(self.quiet_until);
                }
            }
        } else if self.shutdown.is_none() {
            consider(self.open_due);
        }
        if let Some(by) = self.shutdown.and_then(|shutdown| shutdown.close_by) {
            consider(by);
        }
        if self.close_due > now && (!self.lost.is_empty() || self.idle()) {
            consider(self.close_due);
        }
        soonest
    }

    fn jitter(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    fn expected(&self, session: SessionId) -> Digest {
        let mut digest = Digest::default();
        for standing in self.names.values() {
            match *standing {
                Standing::Leading {
                    session: held,
                    term,
                    ..
                }
                | Standing::Releasing {
                    session: held,
                    term,
                    ..
                } if held == session => digest.add(term),
                _ => {}
            }
        }
        for (_, term) in &self.orphans {
            digest.add(*term);
        }
        digest
    }

    fn renewed(&mut self, started: Moment, reply: Result<Reply, Failure>, now: Moment) {
        let Some(session) = &mut self.session else {
            return;
        };
        match reply {
            Ok(Reply::Renewed(Some(digest))) => {
                session.renewed(started);
                let id = session.id;
                self.effects.push(Effect::Trusted {
                    session: id,
                    good: started,
                });
                // Nothing else was on the wire since it was sent, so what is held now was held then (I5).
                if self.reconcile || digest != self.expected(id) {
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
            self.fall_back(now);
            return;
        };
        let mut holds: BTreeMap<WorkName, Term> = holds.into_iter().collect();
        for (name, standing) in &mut self.names {
            match *standing {
                Standing::Leading {
                    session: held,
                    term,
                    ..
                } if held == session.id => {
                    if holds.get(name) == Some(&term) {
                        holds.remove(name);
                    } else {
                        *standing = Standing::Lost {
                            session: held,
                            term,
                        };
                        self.ensured = false;
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
                        self.effects.push(Effect::Released {
                            name: name.clone(),
                            term,
                        });
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

    /// A statement other than a renewal failed: a renewal will tell whether the database answers at all.
    fn fall_back(&mut self, now: Moment) {
        self.renew_now = true;
        self.quiet_until = now + LOOK_AGAIN;
        self.plan = Plan::default();
    }

    fn scanned(&mut self, started: Moment, reply: Result<Reply, Failure>, now: Moment) {
        self.scanned = started;
        let regular = self.timings.campaign + self.jitter(self.timings.campaign_jitter());
        self.scan_due = now + regular;
        let Ok(Reply::Scanned(scan)) = reply else {
            self.scan_due = now + LOOK_AGAIN;
            self.fall_back(now);
            return;
        };
        if let Some(left) = scan.next_expiry {
            let expiry = now + left + self.jitter(self.timings.expiry_jitter());
            self.scan_due = self.scan_due.min(expiry);
        }
        if self.rows.replace(scan.rows).is_some_and(|rows| rows != scan.rows) {
            self.ensured = false;
            self.scan_due = now;
        }
        let mut plan = Plan {
            reap: scan.expired,
            ..Plan::default()
        };
        for vacancy in scan.vacancies {
            let wanted = matches!(
                self.names.get(&vacancy.name),
                Some(Standing::Standby { from }) if *from <= now
            );
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
            self.fall_back(now);
            self.scan_due = self.scan_due.min(now + LOOK_AGAIN);
            return;
        };
        if reaped.len() < asked.len() {
            self.scan_due = self.scan_due.min(now + LOOK_AGAIN);
        }
        for id in reaped {
            self.lost.retain(|lost| *lost != id);
            self.effects.push(Effect::Reaped { session: id });
            self.plan.gone.insert(id);
        }
    }

    fn claimed(&mut self, asked: &[WorkName], reply: Result<Reply, Failure>, now: Moment) {
        let (Ok(Reply::Claimed(won)), Some(session)) = (reply, self.session) else {
            self.reconcile = true;
            self.fall_back(now);
            self.scan_due = self.scan_due.min(now + LOOK_AGAIN);
            return;
        };
        if won.len() < asked.len() {
            self.scan_due = self.scan_due.min(now + LOOK_AGAIN);
        }
        for (name, term) in won {
            let standing = self.names.get_mut(&name);
            match standing {
                // Not one statement of the work before its claim is known to be committed (I4), which it is now.
                Some(standing @ Standing::Standby { .. }) if self.shutdown.is_none() => {
                    *standing = Standing::Leading {
                        session: session.id,
                        term,
                        told: None,
                    };
                    self.effects.push(Effect::Elected {
                        name,
                        term,
                        session: session.id,
                    });
                }
                _ => self.orphans.push((name, term)),
            }
        }
    }

    fn released(&mut self, asked: &[Hold], reply: Result<Reply, Failure>, now: Moment) {
        let Ok(Reply::Released { kept }) = reply else {
            self.reconcile = true;
            self.release_due = now + LOOK_AGAIN;
            self.fall_back(now);
            return;
        };
        if !kept.is_empty() {
            self.release_due = now + LOOK_AGAIN;
        }
        for hold in asked {
            if kept.contains(hold) {
                continue;
            }
            let (name, given) = hold;
            self.orphans.retain(|orphan| orphan != hold);
            if let Some(standing) = self.names.get_mut(name)
                && let Standing::Releasing { term, from, .. } = *standing
                && term == *given
            {
                *standing = Standing::Standby { from };
                self.effects.push(Effect::Released {
                    name: name.clone(),
                    term,
                });
            }
        }
    }

    fn closed(&mut self, id: SessionId, reply: Result<Reply, Failure>, started: Moment) {
        match reply {
            Ok(_) => {
                self.lost.retain(|lost| *lost != id);
                if self.session.is_some_and(|session| session.id == id) {
                    self.session = None;
                    for (name, standing) in &mut self.names {
                        if let Standing::Releasing { term, from, .. } = *standing {
                            *standing = Standing::Standby { from };
                            self.effects.push(Effect::Released {
                                name: name.clone(),
                                term,
                            });
                        }
                    }
                }
            }
            Err(Failure::NoTables) => {
                self.prepared = false;
                self.lost.retain(|lost| *lost != id);
            }
            // Closing again is harmless, and a session that expires frees its names too.
            Err(Failure::Unknown) => self.close_due = started + self.timings.renew,
        }
    }
}
