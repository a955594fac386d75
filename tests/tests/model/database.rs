//! What the database does: statements step by step, fenced transactions, and its clock.
//!
//! READ COMMITTED: a statement looks at the snapshot of its start, and reads again the row that it locks, and no other.
//! Every write is a transaction of its own, and its commit is a step of its own.

use crate::rules::{Mutant, Rules};
use crate::state::{
    Id, Phase, Process, Reply, Request, Session, Set, Standing, State, Statement, Transaction, ids,
};
use crate::steps::{Event, Move, Moves, Property, What};

const WRITTEN: Phase = Phase::Written { digest: 0, deleted: Set::EMPTY };

impl<const R: usize> Moves<'_, R> {
    pub(crate) fn of_statements(&mut self, index: usize) {
        let replica = self.now.replicas[index];
        if let Some(statement) = replica.wire {
            self.execute(index, statement, false);
        }
        if let Some(statement) = replica.stray {
            self.execute(index, statement, true);
            self.add(index, What::Aborts(statement.request), |step| step.next.replicas[index].stray = None);
        }
    }

    fn execute(&mut self, index: usize, statement: Statement, stray: bool) {
        let Statement { request, id, phase } = statement;
        if matches!(phase, Phase::Written { .. }) {
            self.commit(index, statement, stray);
            return;
        }
        let now = self.now;
        let next = match (request, phase) {
            (Request::Held | Request::Scan, _) | (_, Phase::Answered(_)) => return,
            (Request::Renew | Request::Close, _) if now.session_is_locked(id) => return,
            (Request::Open, _) => Phase::Answered(Reply::Done),
            (Request::Renew, _) => match now.session(id) {
                Session::Alive => WRITTEN,
                Session::Expired if self.rules.lack(Mutant::RenewOfExpired) => WRITTEN,
                _ => Phase::Answered(Reply::Lost),
            },
            (Request::Reap(asked), _) => self.reap(asked),
            (Request::Claim(gone), Phase::Sent) => self.begin_claim(id, gone),
            (Request::Claim(_), Phase::Snapshot { .. }) if now.elections == self.bound.elections => return,
            (Request::Claim(gone), Phase::Snapshot { seen, .. }) => self.lock_for_claim(gone, seen),
            (Request::Release(term), _) => self.release(id, term),
            (Request::Close, _) => match now.session(id) {
                Session::Alive | Session::Expired => WRITTEN,
                _ => Phase::Answered(Reply::Done),
            },
            (_, Phase::Written { .. }) => return,
        };
        let next = match (next, request) {
            (Phase::Written { deleted, .. }, Request::Renew) => {
                Phase::Written { digest: self.digest(id), deleted }
            }
            (next, _) => next,
        };
        let next = Statement { phase: next, ..statement };
        let locked = self.name_is_locked();
        self.add(index, What::Executes(request), |step| {
            step.event = match (request, phase, next.phase) {
                (Request::Claim(_), Phase::Snapshot { .. }, Phase::Answered(_)) if locked => {
                    Some(Event::ClaimKeptOut)
                }
                (Request::Claim(_), Phase::Snapshot { .. }, Phase::Answered(_)) => Some(Event::ClaimRefused),
                (Request::Reap(_), _, Phase::Answered(_)) => Some(Event::ReapInVain),
                _ => None,
            };
            if request == Request::Open {
                step.next.set(id, Session::Alive);
            }
            if request == Request::Renew && next.is_written() {
                step.require(now.session(id) == Session::Alive, Property::I6);
            }
            put(step, index, next, stray);
        });
    }

    /// The term of the name, if the session holds it.
    pub(crate) fn digest(&self, id: Id) -> u8 {
        if self.now.holder == id { self.now.term } else { 0 }
    }

    fn those(&self, like: Session) -> Set {
        let mut set = Set::EMPTY;
        for id in ids().filter(|id| self.now.session(*id) == like) {
            set.insert(id);
        }
        set
    }

    /// The session that the name points to, if it has no row.
    pub(crate) fn seen_as_gone(&self) -> Set {
        match self.now.holder {
            holder if !holder.is_none() && self.now.session(holder) == Session::Gone => Set::of(holder),
            _ => Set::EMPTY,
        }
    }

    /// The sessions that a scan finds gone and expired.
    pub(crate) fn scanned(&self, gone: Set, renewed: Set) -> (Set, Set) {
        let mut expired = renewed;
        expired.add(self.those(Session::Expired));
        if !self.rules.lack(Mutant::ClaimTakesExpired) {
            return (gone, expired);
        }
        // Such a claim needs no reap.
        let mut gone = gone;
        gone.add(expired);
        (gone, Set::EMPTY)
    }

    /// Rows that are locked are skipped, and the expiry that counts is the newest.
    fn reap(&self, asked: Set) -> Phase {
        let careless = self.rules.lack(Mutant::ReapWithoutExpired);
        let mut deleted = Set::EMPTY;
        for id in asked.ids().filter(|id| !self.now.session_is_locked(*id)) {
            let session = self.now.session(id);
            if session == Session::Expired || (careless && session == Session::Alive) {
                deleted.insert(id);
            }
        }
        if deleted.is_empty() {
            Phase::Answered(Reply::Reaped(deleted))
        } else {
            Phase::Written { digest: 0, deleted }
        }
    }

    fn begin_claim(&self, id: Id, gone: Set) -> Phase {
        let own = self.now.session(id) == Session::Alive || self.rules.lack(Mutant::ClaimWithoutOwnSession);
        let mut seen = Set::EMPTY;
        if self.rules.lack(Mutant::ClaimByJoin) {
            seen = self.those(Session::Alive);
            seen.add(self.those(Session::Expired));
        }
        if own && self.takes(gone, seen) {
            Phase::Snapshot { seen, renewed: Set::EMPTY }
        } else {
            Phase::Answered(Reply::Claimed(0))
        }
    }

    /// A row that is locked is skipped. Of the row of the name the newest counts; what it is compared with was passed by value.
    fn lock_for_claim(&self, gone: Set, seen: Set) -> Phase {
        if !self.name_is_locked() && self.takes(gone, seen) {
            WRITTEN
        } else {
            Phase::Answered(Reply::Claimed(0))
        }
    }

    /// Whether a claim takes the name from whom its row points to.
    fn takes(&self, gone: Set, seen: Set) -> bool {
        let holder = self.now.holder;
        let join = self.rules.lack(Mutant::ClaimByJoin);
        holder.is_none()
            || self.rules.lack(Mutant::ClaimWithoutComparing)
            || if join { !seen.has(holder) } else { gone.has(holder) }
    }

    /// Whether the row of the name is locked against those who write it.
    fn name_is_locked(&self) -> bool {
        let fenced = self.now.is_fenced() && !self.rules.lack(Mutant::FenceWithoutLock);
        fenced || self.now.name_is_locked()
    }

    fn release(&self, id: Id, term: u8) -> Phase {
        let holder = self.now.holder;
        let anybody = self.rules.lack(Mutant::ReleaseWithoutSession) && !holder.is_none();
        let mine = (holder == id || anybody)
            && (self.now.term == term || self.rules.lack(Mutant::ReleaseWithoutTerm));
        if mine && !self.name_is_locked() { WRITTEN } else { Phase::Answered(Reply::Released { kept: mine }) }
    }

    fn commit(&mut self, index: usize, statement: Statement, stray: bool) {
        let Statement { request, id, phase } = statement;
        let Phase::Written { digest, deleted } = phase else { return };
        let rules = self.rules;
        self.add(index, What::Commits(request), |step| {
            let reply = match request {
                Request::Renew => {
                    if step.next.session(id) == Session::Expired {
                        step.event = Some(Event::LateRenewal);
                    }
                    step.next.set(id, Session::Alive);
                    note_renewed(&mut step.next, id);
                    Reply::Renewed { digest }
                }
                Request::Reap(_) => {
                    for id in deleted.ids() {
                        step.next.set(id, Session::Gone);
                    }
                    Reply::Reaped(deleted)
                }
                Request::Claim(_) => Reply::Claimed(commit_claim(step, id, rules)),
                Request::Release(_) => {
                    step.require(!step.next.runs(step.next.holder, step.next.term), Property::I4);
                    step.next.holder = Id::NONE;
                    Reply::Released { kept: false }
                }
                _ => {
                    let owner = step.next.replicas[State::<R>::owner(id)];
                    step.require(!(owner.works() && owner.of == id), Property::I4);
                    step.next.set(id, Session::Gone);
                    Reply::Done
                }
            };
            step.event = step.event.or(stray.then_some(Event::StrayCommitted));
            put(step, index, Statement { phase: Phase::Answered(reply), ..statement }, stray);
        });
    }

    pub(crate) fn of_transaction(&mut self, index: usize) {
        let now = self.now;
        match now.replicas[index].transaction {
            Transaction::None => {}
            Transaction::Fencing(fence) => {
                if now.name_is_locked() && !self.rules.lack(Mutant::FenceWithoutLock) {
                    return;
                }
                let session = now.holder == fence.session || self.rules.lack(Mutant::FenceWithoutSession);
                let term = now.term == fence.term || self.rules.lack(Mutant::FenceWithoutTerm);
                let granted = session && term;
                self.add(index, What::Fenced(granted), |step| {
                    let mine = (now.holder, now.term) == (fence.session, fence.term);
                    step.require(mine || !granted, Property::I2);
                    step.event = (!granted).then_some(Event::RefusedFence);
                    step.next.replicas[index].transaction =
                        if granted { Transaction::Open(fence) } else { Transaction::None };
                });
            }
            Transaction::Open(_) => self.end_transaction(index),
            Transaction::Committing(fence) => {
                self.end_transaction(index);
                self.add(index, What::TransactionCommits, |step| {
                    let mine = (now.holder, now.term) == (fence.session, fence.term);
                    step.require(!fence.overtaken, Property::Promise2);
                    step.require(mine, Property::I2);
                    step.event = Some(Event::Commit);
                    step.next.replicas[index].transaction = Transaction::None;
                });
            }
        }
    }

    fn end_transaction(&mut self, index: usize) {
        self.add(index, What::TransactionEnds, |step| {
            step.next.replicas[index].transaction = Transaction::None;
        });
    }

    /// The expiry of a session passes. Its replica has marked the loss by then, and its work is gone, unless the process is
    /// frozen or gone itself: that is what the deadline, the grace, the margin and the watchdog are for.
    pub(crate) fn of_clock(&mut self) {
        for id in ids().filter(|id| self.now.session(*id) == Session::Alive) {
            let owner = State::<R>::owner(id);
            let replica = &self.now.replicas[owner];
            let opening =
                matches!(replica.wire, Some(Statement { request: Request::Open, id: own, .. }) if own == id);
            let trusted = (replica.session == id || opening) && !replica.overdue;
            let runs = replica.works()
                && replica.of == id
                && !replica.overdue
                && replica.standing != Standing::Lost { late: true };
            let blind = self.rules.lack(Mutant::NoDeadline);
            if replica.process == Process::Up && (trusted || runs) && !blind {
                continue;
            }
            self.add(owner, What::Expires(id), |step| {
                step.next.set(id, Session::Expired);
                let replica = &mut step.next.replicas[owner];
                replica.overdue |= trusted && replica.process == Process::Frozen && !blind;
                if replica.of == id && matches!(replica.standing, Standing::Lost { .. }) {
                    replica.standing = Standing::Lost { late: true };
                }
            });
        }
    }
}

fn put<const R: usize>(step: &mut Move<R>, index: usize, statement: Statement, stray: bool) {
    let replica = &mut step.next.replicas[index];
    if !stray {
        replica.wire = Some(statement);
    } else if matches!(statement.phase, Phase::Answered(_)) {
        replica.stray = None;
    } else {
        replica.stray = Some(statement);
    }
}

/// Whoever holds a snapshot sees the old expiry of this session.
fn note_renewed<const R: usize>(state: &mut State<R>, id: Id) {
    for replica in &mut state.replicas {
        if let Some(Statement { request: Request::Scan, phase: Phase::Snapshot { renewed, .. }, .. }) =
            &mut replica.wire
        {
            renewed.insert(id);
        }
    }
}

fn commit_claim<const R: usize>(step: &mut Move<R>, id: Id, rules: Rules) -> u8 {
    let state = &mut step.next;
    let (old, fenced, top) = (state.holder, state.is_fenced(), state.top);
    let gone = old.is_none() || state.session(old) == Session::Gone;
    let term = if rules.lack(Mutant::TermStays) {
        state.term.max(1)
    } else if rules.lack(Mutant::TermPerSession) {
        state.count_claim(id)
    } else {
        state.term + 1
    };
    (state.holder, state.term) = (id, term);
    state.elections += 1;
    for (index, replica) in state.replicas.iter_mut().enumerate() {
        if index != State::<R>::owner(id)
            && let Some(fence) = replica.transaction.fence()
        {
            fence.overtaken = true;
        }
    }
    state.top = top.max(term);
    step.require(gone, Property::I1);
    step.require(term > top, Property::I2);
    step.require(!fenced, Property::I3);
    step.event = Some(if step.next.session(id) == Session::Gone {
        Event::ElectedWhenGone
    } else if old.is_none() {
        Event::Election
    } else {
        Event::Takeover
    });
    term
}
