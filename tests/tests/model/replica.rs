//! What a replica does: its keeper, its work, and what befalls its process.

use crate::answers::{elect, lose};
use crate::rules::Mutant;
use crate::state::{
    Fence, Id, Phase, Process, Replica, Reply, Request, Session, Set, Standing, State, Statement, Transaction,
};
use crate::steps::{Move, Moves, Property, What};

impl<const R: usize> Moves<'_, R> {
    pub(crate) fn of_replica(&mut self, index: usize) {
        let replica = self.now.replicas[index];
        match replica.process {
            Process::Off => self.start(index),
            Process::Frozen => {
                self.add(index, What::Thaws, |step| step.next.replicas[index].process = Process::Up);
            }
            Process::Up => {
                self.trouble(index);
                self.work(index);
                if !replica.overdue {
                    self.hear(index);
                    self.send(index);
                    return;
                }
                // It has just woken up, and every way out of here looks at the clock first.
                self.mark_loss(index);
                self.hear_before_clock(index);
            }
        }
    }

    fn start(&mut self, index: usize) {
        let old = self.now.replicas[index];
        if old.opened < self.bound.sessions {
            self.add(index, What::Starts, |step| {
                step.next.replicas[index] = Replica {
                    process: Process::Up,
                    opened: old.opened,
                    stray: old.stray,
                    transaction: old.transaction,
                    ..Replica::default()
                };
                send(step, index, Request::Open, Id::NONE);
            });
        }
    }

    fn trouble(&mut self, index: usize) {
        let replica = self.now.replicas[index];
        if self.now.spent.freezes < self.bound.freezes {
            self.add(index, What::Freezes, |step| {
                step.next.spent.freezes += 1;
                step.next.replicas[index].process = Process::Frozen;
            });
        }
        // What is on the wire goes on.
        if replica.can_give_up() {
            if self.now.spent.crashes < self.bound.crashes {
                self.add(index, What::Crashes, |step| {
                    step.next.spent.crashes += 1;
                    step.next.replicas[index].die();
                });
            }
            if matches!(replica.standing, Standing::Lost { .. }) {
                self.add(index, What::Exits, |step| step.next.replicas[index].die());
            }
        }
        // The deadline passes without a good renewal.
        let keeps = self.rules.lack(Mutant::ReviveLost);
        if !replica.overdue && !replica.session.is_none() && self.now.spent.losses < self.bound.losses {
            self.add(index, What::MarksLoss, |step| {
                step.next.spent.losses += 1;
                lose(&mut step.next, index, keeps);
            });
        }
    }

    fn mark_loss(&mut self, index: usize) {
        let keeps = self.rules.lack(Mutant::ReviveLost);
        self.add(index, What::MarksLoss, |step| lose(&mut step.next, index, keeps));
    }

    fn work(&mut self, index: usize) {
        let replica = self.now.replicas[index];
        if replica.works() {
            self.add(index, What::WorkEnds, |step| {
                let replica = &mut step.next.replicas[index];
                if replica.standing == Standing::Leading {
                    replica.standing = Standing::Releasing;
                } else {
                    replica.end_tenure();
                }
            });
        }
        let unchecked = self.rules.lack(Mutant::CommitWithoutCheck);
        let (session, term) = (replica.of, replica.term);
        if replica.transaction == Transaction::None
            && replica.leads()
            && self.now.spent.transactions < self.bound.transactions
        {
            self.add(index, What::SendsFence, |step| {
                step.next.spent.transactions += 1;
                step.next.replicas[index].transaction =
                    Transaction::Fencing(Fence { session, term, overtaken: false });
            });
        }
        if let Transaction::Open(fence) = replica.transaction {
            // Its connection is cut when the tenure is over.
            let goes_on = replica.leads() && (fence.session, fence.term) == (session, term);
            if goes_on || unchecked {
                self.add(index, What::SendsCommit, |step| {
                    step.next.replicas[index].transaction = Transaction::Committing(fence);
                });
            }
        }
        // Its claim has not been answered.
        if self.rules.lack(Mutant::ElectedBeforeCommit)
            && replica.standing == Standing::Standby
            && let Some(Statement { request: Request::Claim(_), id, phase: Phase::Written { .. } }) =
                replica.wire
            && id == replica.session
        {
            self.add(index, What::StartsEarly, |step| {
                let term = step.next.term + 1;
                step.require(false, Property::I4);
                elect(step, index, term);
            });
        }
    }

    /// What the keeper may send. Where the engine has an order, the model mostly has none.
    fn send(&mut self, index: usize) {
        let replica = self.now.replicas[index];
        if replica.wire.is_some() {
            return;
        }
        let id = replica.session;
        if id.is_none() {
            if !replica.stopping {
                self.open(index);
            } else if !replica.works() {
                self.close_lost(index);
            }
            return;
        }
        self.send_one(index, Request::Renew, id);
        if replica.reconcile {
            let phase = Phase::Answered(Reply::Held(self.digest(id)));
            self.send_read(index, Statement { request: Request::Held, id, phase });
            return;
        }
        let early = self.rules.lack(Mutant::ReleaseWhileRunning) && replica.standing == Standing::Leading;
        if replica.standing == Standing::Releasing || early {
            self.send_one(index, Request::Release(replica.term), id);
        }
        if replica.orphan > 0 {
            self.send_one(index, Request::Release(replica.orphan), id);
        }
        self.close_lost(index);
        if self.bound.shutdown && !replica.stopping {
            self.add(index, What::StopsGracefully, |step| {
                let replica = &mut step.next.replicas[index];
                replica.stopping = true;
                (replica.reap, replica.gone) = (Set::EMPTY, Set::EMPTY);
            });
        }
        if replica.stopping {
            if !replica.works() {
                self.send_one(index, Request::Close, id);
            }
            return;
        }
        let careless = self.rules.lack(Mutant::CampaignWhileRunning)
            && matches!(replica.standing, Standing::Lost { .. });
        if replica.standing != Standing::Standby && !careless {
            return;
        }
        if replica.reap.is_empty() {
            // After a scan, or a hint that the name points to no session.
            if self.now.elections < self.bound.elections {
                self.send_one(index, Request::Claim(replica.gone), id);
            }
            if replica.gone.is_empty() {
                let phase = Phase::Snapshot { seen: self.seen_as_gone(), renewed: Set::EMPTY };
                self.send_read(index, Statement { request: Request::Scan, id, phase });
            }
        } else {
            self.send_one(index, Request::Reap(replica.reap), id);
        }
    }

    fn open(&mut self, index: usize) {
        let replica = self.now.replicas[index];
        if self.rules.lack(Mutant::SameId) && replica.opened > 0 {
            let id = Id(block::<R>(index) + replica.opened);
            if self.now.session(id) == Session::Gone {
                self.add(index, What::Sends(Request::Open), |step| {
                    step.require(false, Property::I6);
                    step.next.marked.remove(Set::of(id));
                    step.next.replicas[index].opened -= 1;
                    send(step, index, Request::Open, Id::NONE);
                });
            }
        } else if replica.opened < self.bound.sessions {
            self.send_one(index, Request::Open, Id::NONE);
        }
    }

    fn close_lost(&mut self, index: usize) {
        let replica = self.now.replicas[index];
        let careless = self.rules.lack(Mutant::CloseWhileRunning);
        for id in replica.lost.ids() {
            if careless || !(replica.works() && replica.of == id) {
                self.send_one(index, Request::Close, id);
            }
        }
    }

    fn send_one(&mut self, index: usize, request: Request, id: Id) {
        self.add(index, What::Sends(request), |step| send(step, index, request, id));
    }

    /// Before its snapshot a read makes no difference: sending it and that are one step.
    fn send_read(&mut self, index: usize, statement: Statement) {
        self.add(index, What::Sends(statement.request), |step| {
            step.next.replicas[index].wire = Some(statement);
        });
    }
}

impl Replica {
    /// One statement that was given up may go on at a time.
    pub(crate) fn can_give_up(&self) -> bool {
        self.stray.is_none()
            || self.wire.is_none_or(|statement| matches!(statement.phase, Phase::Answered(_)))
    }

    /// What was only read makes no difference any more.
    pub(crate) fn give_up(&mut self) {
        if let Some(statement) = self.wire.take()
            && !matches!(statement.phase, Phase::Answered(_))
            && !matches!(statement.request, Request::Scan | Request::Held)
        {
            self.stray = Some(statement);
        }
    }

    /// The server may hear late that the connection of a transaction is gone.
    pub(crate) fn die(&mut self) {
        self.give_up();
        let Self { opened, stray, transaction, .. } = *self;
        *self = Self { opened, stray, transaction, ..Self::default() };
    }

    pub(crate) fn end_tenure(&mut self) {
        (self.standing, self.of, self.term) = (Standing::Standby, Id::NONE, 0);
    }
}

/// The first id of a replica's block, less 1.
fn block<const R: usize>(index: usize) -> u8 {
    u8::try_from(index * State::<R>::block()).expect("few ids")
}

fn send<const R: usize>(step: &mut Move<R>, index: usize, request: Request, id: Id) {
    let replica = &mut step.next.replicas[index];
    let mut id = id;
    match request {
        Request::Open => {
            replica.opened += 1;
            id = Id(block::<R>(index) + replica.opened);
        }
        Request::Reap(_) => replica.reap = Set::EMPTY,
        Request::Claim(_) => replica.gone = Set::EMPTY,
        _ => {}
    }
    replica.wire = Some(Statement { request, id, phase: Phase::Sent });
}
