//! Replicas are alike: of states that differ only in which is which, one is explored.

use crate::state::{IDS, Id, Phase, Replica, Reply, Request, Set, State, Statement, Transaction};

impl<const R: usize> State<R> {
    /// The one that stands for all that are like it.
    pub(crate) fn canonical(self) -> Self {
        let mut state = self;
        for end in (1..R).rev() {
            for low in 0..end {
                let high = low + 1;
                let (a, b) = (rank(&state.replicas[low]), rank(&state.replicas[high]));
                if a < b {
                    continue;
                }
                let other = state.exchanged(low, high);
                if a > b || other < state {
                    state = other;
                }
            }
        }
        state
    }

    fn exchanged(&self, low: usize, high: usize) -> Self {
        let exchange = Exchange { low, high, block: Self::block() };
        let mut state = *self;
        state.replicas.swap(low, high);
        for replica in &mut state.replicas {
            *replica = exchange.replica(replica);
        }
        state.holder = exchange.id(self.holder);
        state.marked = exchange.set(self.marked);
        for nth in 0..Self::block() {
            state.exchange_sessions(low * Self::block() + nth, high * Self::block() + nth);
        }
        state
    }
}

/// What decides in most cases, at little cost, and is the same whichever replica is which.
fn rank(replica: &Replica) -> [u8; 5] {
    let Replica { process, standing, opened, term, wire, stray, overdue, reconcile, .. } = replica;
    let request = |statement: &Option<Statement>| {
        statement.as_ref().map_or(0, |statement| match statement.request {
            Request::Open => 1,
            Request::Renew => 2,
            Request::Held => 3,
            Request::Scan => 4,
            Request::Reap(_) => 5,
            Request::Claim(_) => 6,
            Request::Release(_) => 7,
            Request::Close => 8,
        })
    };
    let standing = match standing {
        crate::state::Standing::Standby => 0,
        crate::state::Standing::Leading => 1,
        crate::state::Standing::Releasing => 2,
        crate::state::Standing::Lost { late } => 3 + u8::from(*late),
    };
    let flags = *process as u8 * 4 + u8::from(*overdue) * 2 + u8::from(*reconcile);
    [flags, standing, *opened, *term, request(wire) * 16 + request(stray)]
}

struct Exchange {
    low: usize,
    high: usize,
    block: usize,
}

impl Exchange {
    fn id(&self, id: Id) -> Id {
        if id.is_none() {
            return id;
        }
        let at = usize::from(id.0) - 1;
        let to = match at / self.block {
            owner if owner == self.low => at + (self.high - self.low) * self.block,
            owner if owner == self.high => at - (self.high - self.low) * self.block,
            _ => at,
        };
        Id(u8::try_from(to + 1).expect("few ids"))
    }

    fn set(&self, set: Set) -> Set {
        set.exchanged(self.low * self.block, self.high * self.block, self.block)
    }

    fn replica(&self, replica: &Replica) -> Replica {
        Replica {
            session: self.id(replica.session),
            of: self.id(replica.of),
            reap: self.set(replica.reap),
            gone: self.set(replica.gone),
            lost: self.set(replica.lost),
            wire: replica.wire.map(|statement| self.statement(statement)),
            stray: replica.stray.map(|statement| self.statement(statement)),
            transaction: self.transaction(replica.transaction),
            ..*replica
        }
    }

    fn transaction(&self, transaction: Transaction) -> Transaction {
        let mut transaction = transaction;
        if let Some(fence) = transaction.fence() {
            fence.session = self.id(fence.session);
        }
        transaction
    }

    fn statement(&self, statement: Statement) -> Statement {
        Statement {
            request: match statement.request {
                Request::Reap(ids) => Request::Reap(self.set(ids)),
                Request::Claim(gone) => Request::Claim(self.set(gone)),
                request => request,
            },
            id: self.id(statement.id),
            phase: match statement.phase {
                Phase::Sent => Phase::Sent,
                Phase::Snapshot { seen, renewed } => {
                    Phase::Snapshot { seen: self.set(seen), renewed: self.set(renewed) }
                }
                Phase::Written { digest, deleted } => Phase::Written { digest, deleted: self.set(deleted) },
                Phase::Answered(Reply::Reaped(ids)) => Phase::Answered(Reply::Reaped(self.set(ids))),
                Phase::Answered(reply) => Phase::Answered(reply),
            },
        }
    }
}

const _: () = assert!(IDS == 8, "a set is a byte");
