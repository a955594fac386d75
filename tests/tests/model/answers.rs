//! What a replica makes of answers, and of those that do not come.

use crate::rules::{Mutant, Rules};
use crate::state::{Id, Phase, Replica, Reply, Request, Set, Standing, State, Statement};
use crate::steps::{Event, Move, Moves, Property, What};

impl<const R: usize> Moves<'_, R> {
    pub(crate) fn hear(&mut self, index: usize) {
        let replica = self.now.replicas[index];
        let Some(statement) = replica.wire else { return };
        if let Phase::Snapshot { seen, renewed } = statement.phase
            && statement.request == Request::Scan
        {
            // Its clock is read after its snapshot was taken, and may have passed expiries that were pushed since.
            let (gone, expired) = self.scanned(seen, renewed);
            self.add(index, What::Hears(statement.request), |step| {
                let replica = &mut step.next.replicas[index];
                replica.wire = None;
                if statement.id == replica.session && !replica.stopping {
                    (replica.gone, replica.reap) = (gone, expired);
                }
            });
        }
        if let Phase::Answered(reply) = statement.phase {
            let rules = self.rules;
            self.add(index, What::Hears(statement.request), |step| {
                step.next.replicas[index].wire = None;
                heard(step, index, statement, reply, rules);
            });
        }
        if replica.can_give_up() && self.now.spent.given_up < self.bound.given_up {
            let forgets = self.rules.lack(Mutant::LostClaimForgotten);
            self.add(index, What::GivesUp(statement.request), |step| {
                step.next.spent.given_up += 1;
                let replica = &mut step.next.replicas[index];
                replica.give_up();
                if statement.id == replica.session {
                    (replica.reap, replica.gone) = (Set::EMPTY, Set::EMPTY);
                    replica.reconcile |= match statement.request {
                        Request::Claim(_) => !forgets,
                        Request::Release(_) => true,
                        _ => false,
                    };
                }
            });
        }
    }

    /// The good answer of a renewal that waited through a freeze.
    pub(crate) fn hear_before_clock(&mut self, index: usize) {
        if self.rules.lack(Mutant::DeadlineFromAnswer)
            && let Some(statement) = self.now.replicas[index].wire
            && let Phase::Answered(reply @ Reply::Renewed { .. }) = statement.phase
        {
            let rules = self.rules;
            self.add(index, What::Hears(statement.request), |step| {
                step.next.replicas[index].wire = None;
                step.next.replicas[index].overdue = false;
                heard(step, index, statement, reply, rules);
            });
        }
    }
}

impl Replica {
    /// What a renewal should find: how many names the session holds, and the sum of their terms.
    fn expects(&self) -> (u8, u8) {
        let held = match self.standing {
            Standing::Leading | Standing::Releasing if self.of == self.session => self.term,
            _ => 0,
        };
        (u8::from(held > 0) + u8::from(self.orphan > 0), held + self.orphan)
    }
}

/// Marks the loss of the session, and tells the work. No attempt goes past the deadline.
pub(crate) fn lose<const R: usize>(state: &mut State<R>, index: usize, keeps_attempt: bool) {
    let replica = &mut state.replicas[index];
    if !keeps_attempt && replica.can_give_up() {
        replica.give_up();
    }
    let id = std::mem::take(&mut replica.session);
    let late = std::mem::take(&mut replica.overdue);
    if id.is_none() {
        // Not even its opening had been heard.
        replica.wire = None;
        return;
    }
    state.marked.insert(id);
    replica.lost.insert(id);
    match replica.standing {
        Standing::Leading => replica.standing = Standing::Lost { late },
        Standing::Releasing => replica.end_tenure(),
        Standing::Standby | Standing::Lost { .. } => {}
    }
    replica.orphan = 0;
    replica.reconcile = false;
    (replica.reap, replica.gone) = (Set::EMPTY, Set::EMPTY);
}

pub(crate) fn elect<const R: usize>(step: &mut Move<R>, index: usize, term: u8) {
    let beside = step.next.replicas[index].works();
    step.require(!beside, Property::I4);
    let replica = &mut step.next.replicas[index];
    (replica.standing, replica.of, replica.term) = (Standing::Leading, replica.session, term);
}

fn heard<const R: usize>(step: &mut Move<R>, index: usize, statement: Statement, reply: Reply, rules: Rules) {
    let Statement { request, id, .. } = statement;
    let old = step.next.replicas[index];
    match request {
        Request::Open => {
            step.next.replicas[index].session = id;
            return;
        }
        Request::Close => {
            let replica = &mut step.next.replicas[index];
            replica.lost.remove(Set::of(id));
            if replica.session == id {
                replica.session = Id::NONE;
                if replica.standing == Standing::Releasing {
                    replica.end_tenure();
                }
                (replica.orphan, replica.reconcile) = (0, false);
            }
            if replica.stopping && replica.session.is_none() && replica.lost.is_empty() {
                replica.die();
            }
            return;
        }
        _ => {}
    }
    if id != old.session {
        // It speaks of a lost session (I6).
        if rules.lack(Mutant::ReviveLost) && matches!(reply, Reply::Renewed { .. }) && old.session.is_none() {
            let replica = &mut step.next.replicas[index];
            replica.session = id;
            replica.lost.remove(Set::of(id));
            if matches!(replica.standing, Standing::Lost { .. }) && replica.of == id {
                replica.standing = Standing::Leading;
            }
        }
        return;
    }
    match reply {
        Reply::Renewed { digest, .. } => {
            let found = (u8::from(digest > 0), digest);
            step.next.replicas[index].reconcile |=
                found != old.expects() && !rules.lack(Mutant::LostClaimForgotten);
        }
        Reply::Lost => {
            lose(&mut step.next, index, true);
        }
        Reply::Held(term) => held(step, index, term, rules),
        Reply::Reaped(reaped) => {
            let replica = &mut step.next.replicas[index];
            replica.lost.remove(reaped);
            if !replica.stopping {
                replica.gone.add(reaped);
            }
        }
        Reply::Claimed(0) | Reply::Done => {}
        Reply::Claimed(term) => match old.standing {
            Standing::Leading if (old.of, old.term) == (id, term) => {}
            Standing::Lost { .. } | Standing::Standby if !old.stopping => elect(step, index, term),
            _ => step.next.replicas[index].orphan = term,
        },
        Reply::Released { kept } => {
            let replica = &mut step.next.replicas[index];
            if kept {
                step.event = Some(Event::ReleaseKept);
            } else if request == Request::Release(replica.orphan) {
                replica.orphan = 0;
            } else if replica.standing == Standing::Releasing && request == Request::Release(replica.term) {
                replica.end_tenure();
            }
        }
    }
}

/// Compares what runs here with what the session holds.
fn held<const R: usize>(step: &mut Move<R>, index: usize, term: u8, rules: Rules) {
    let old = step.next.replicas[index];
    step.next.replicas[index].reconcile = false;
    let mine = old.of == old.session && old.term == term;
    if rules.lack(Mutant::Adopt) && term > 0 && !old.works() && !old.stopping {
        step.require(false, Property::I7);
        elect(step, index, term);
        return;
    }
    let replica = &mut step.next.replicas[index];
    replica.orphan = 0;
    match old.standing {
        Standing::Leading | Standing::Releasing if mine && term > 0 => return,
        Standing::Leading if old.of == old.session => replica.standing = Standing::Lost { late: false },
        Standing::Releasing => replica.end_tenure(),
        _ => {}
    }
    if term > 0 {
        replica.orphan = term;
        step.event = Some(Event::LostClaimFound);
    }
}
