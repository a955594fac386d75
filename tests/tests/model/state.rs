//! What the model remembers: the two tables, what every replica knows, and what is on the way between them.
//!
//! There is one name. A replica has a fixed block of session ids, which it uses up in order: none comes twice.

use std::fmt;

/// How many session ids there are, for all replicas.
pub(crate) const IDS: usize = 8;

/// The id of a session; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u8);

impl Id {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    fn index(self) -> usize {
        usize::from(self.0) - 1
    }
}

/// Sessions, a bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Set(u8);

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ids().map(|id| id.0)).finish()
    }
}

impl Set {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn of(id: Id) -> Self {
        let mut set = Self::EMPTY;
        set.insert(id);
        set
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, id: Id) -> bool {
        !id.is_none() && self.0 & (1 << id.index()) != 0
    }

    pub(crate) fn insert(&mut self, id: Id) {
        if !id.is_none() {
            self.0 |= 1 << id.index();
        }
    }

    pub(crate) fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// With two blocks of bits exchanged.
    pub(crate) fn exchanged(self, low: usize, high: usize, block: usize) -> Self {
        let mask = (1_u8 << block) - 1;
        let (a, b) = (self.0 >> low & mask, self.0 >> high & mask);
        Self(self.0 & !(mask << low | mask << high) | b << low | a << high)
    }

    pub(crate) fn ids(self) -> impl Iterator<Item = Id> {
        ids().filter(move |id| self.has(*id))
    }
}

pub(crate) fn ids() -> impl Iterator<Item = Id> {
    (1..=8).map(Id)
}

/// A session's row, as last committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Session {
    #[default]
    Unopened,
    Alive,
    /// The database's clock has passed its expiry, and the row is still there.
    Expired,
    Gone,
}

/// What a replica sends to the database, each a transaction of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Request {
    Open,
    Renew,
    Held,
    Scan,
    Reap(Set),
    /// The sessions known to be gone, passed by value.
    Claim(Set),
    /// The term.
    Release(u8),
    Close,
}

/// How far a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    Sent,
    /// It has taken its snapshot, and waits for its turn with the row of the name. `seen` are the sessions in the snapshot
    /// that the statement looks at; of those in `renewed` it sees an expiry that was pushed since.
    Snapshot {
        seen: Set,
        renewed: Set,
    },
    /// It has written, holds the locks of what it wrote, and has not committed. A renewal has read its digest.
    Written {
        digest: u8,
        deleted: Set,
    },
    /// It has committed.
    Answered(Reply),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reply {
    Done,
    /// The term of the name, if the session holds it.
    Renewed {
        digest: u8,
    },
    /// A renewal that found no session to renew.
    Lost,
    Held(u8),
    Reaped(Set),
    /// The term won, or 0.
    Claimed(u8),
    Released {
        kept: bool,
    },
}

/// A statement between a replica and the database, under a session or about one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Statement {
    pub(crate) request: Request,
    pub(crate) id: Id,
    pub(crate) phase: Phase,
}

impl Statement {
    /// Whether it holds the lock of the name's row.
    fn locks_name(self) -> bool {
        matches!(self.request, Request::Claim(_) | Request::Release(_)) && self.is_written()
    }

    fn locks_session(self, id: Id) -> bool {
        match (self.request, self.phase) {
            (Request::Renew | Request::Close, Phase::Written { .. }) => self.id == id,
            (Request::Reap(_), Phase::Written { deleted, .. }) => deleted.has(id),
            _ => false,
        }
    }

    pub(crate) fn is_written(self) -> bool {
        matches!(self.phase, Phase::Written { .. })
    }
}

/// A fenced transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Transaction {
    #[default]
    None,
    /// `BEGIN` and the fence are on their way.
    Fencing(Fence),
    /// The fence found its row.
    Open(Fence),
    Committing(Fence),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fence {
    pub(crate) session: Id,
    pub(crate) term: u8,
    /// Another replica has been elected since it began.
    pub(crate) overtaken: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Process {
    #[default]
    Off,
    Up,
    Frozen,
}

/// How a replica stands with the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Standing {
    #[default]
    Standby,
    /// The work runs.
    Leading,
    /// The work has ended while the lease was good.
    Releasing,
    /// The work still runs although its lease was marked as lost. `late`: the process was frozen while the moment of its
    /// exit went by.
    Lost { late: bool },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Replica {
    pub(crate) process: Process,
    /// It shuts down.
    pub(crate) stopping: bool,
    pub(crate) session: Id,
    /// The deadline of the session has passed, and nobody has noticed: the process was frozen.
    pub(crate) overdue: bool,
    pub(crate) standing: Standing,
    /// The session and the term of the tenure.
    pub(crate) of: Id,
    pub(crate) term: u8,
    /// The term of a name that the session holds and no work runs under (I7), or 0.
    pub(crate) orphan: u8,
    pub(crate) reconcile: bool,
    /// What the last scan leaves to do.
    pub(crate) reap: Set,
    pub(crate) gone: Set,
    /// Lost sessions to be closed.
    pub(crate) lost: Set,
    /// How many of its ids it has used.
    pub(crate) opened: u8,
    /// The one statement that it waits for (I5).
    pub(crate) wire: Option<Statement>,
    /// One that was given up and goes on all the same.
    pub(crate) stray: Option<Statement>,
    pub(crate) transaction: Transaction,
}

impl Transaction {
    pub(crate) fn fence(&mut self) -> Option<&mut Fence> {
        match self {
            Self::None => None,
            Self::Fencing(fence) | Self::Open(fence) | Self::Committing(fence) => Some(fence),
        }
    }
}

impl Replica {
    pub(crate) fn works(&self) -> bool {
        matches!(self.standing, Standing::Leading | Standing::Lost { .. })
    }

    /// Whether `check()` of its tenure passes.
    pub(crate) fn leads(&self) -> bool {
        self.process != Process::Off && self.standing == Standing::Leading && !self.overdue
    }

    /// A healthy replica that runs the name: not frozen, not past its deadline, not told of a loss.
    pub(crate) fn leads_in_health(&self) -> bool {
        self.process == Process::Up && self.leads()
    }

    /// Promise 4: it runs the name whatever it was told, and no freeze kept it from ending itself in time.
    pub(crate) fn runs_on(&self) -> bool {
        let late = self.overdue || matches!(self.standing, Standing::Lost { late: true });
        self.process == Process::Up && self.works() && !late
    }

    pub(crate) fn statements(&self) -> impl Iterator<Item = Statement> + use<> {
        self.wire.into_iter().chain(self.stray)
    }
}

/// Of what the bound allows so much was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spent {
    pub(crate) given_up: u8,
    pub(crate) freezes: u8,
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) transactions: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State<const R: usize> {
    pub(crate) replicas: [Replica; R],
    /// The row of the name.
    pub(crate) holder: Id,
    pub(crate) term: u8,
    sessions: [Session; IDS],
    /// How many claims have been committed, and the largest term of them.
    pub(crate) elections: u8,
    pub(crate) top: u8,
    /// The claims of each session, two bits each; counted only where the terms do.
    pub(crate) claims: u16,
    /// Sessions that their replica has marked as lost at any time.
    pub(crate) marked: Set,
    pub(crate) spent: Spent,
}

impl<const R: usize> State<R> {
    pub(crate) fn initial() -> Self {
        Self {
            replicas: [Replica::default(); R],
            holder: Id::NONE,
            term: 0,
            sessions: [Session::Unopened; IDS],
            elections: 0,
            top: 0,
            claims: 0,
            marked: Set::EMPTY,
            spent: Spent::default(),
        }
    }

    /// Of each replica.
    pub(crate) const fn block() -> usize {
        IDS / R
    }

    pub(crate) fn owner(id: Id) -> usize {
        id.index() / Self::block()
    }

    pub(crate) fn session(&self, id: Id) -> Session {
        self.sessions[id.index()]
    }

    pub(crate) fn set(&mut self, id: Id, session: Session) {
        self.sessions[id.index()] = session;
    }

    /// Two sessions, and what is counted of them, change places.
    pub(crate) fn exchange_sessions(&mut self, one: usize, other: usize) {
        self.sessions.swap(one, other);
        let (a, b) = (self.claims >> (2 * one) & 3, self.claims >> (2 * other) & 3);
        self.claims = self.claims & !(3 << (2 * one) | 3 << (2 * other)) | b << (2 * one) | a << (2 * other);
    }

    /// How many claims of a session have been committed, this one included.
    pub(crate) fn count_claim(&mut self, id: Id) -> u8 {
        let shift = 2 * id.index();
        self.claims += 1 << shift;
        u8::try_from(self.claims >> shift & 3).expect("two bits")
    }

    pub(crate) fn name_is_locked(&self) -> bool {
        self.replicas.iter().flat_map(Replica::statements).any(Statement::locks_name)
    }

    /// Whether a fenced transaction is open.
    pub(crate) fn is_fenced(&self) -> bool {
        let open = |t| matches!(t, Transaction::Open(_) | Transaction::Committing(_));
        self.replicas.iter().any(|replica| open(replica.transaction))
    }

    pub(crate) fn session_is_locked(&self, id: Id) -> bool {
        self.replicas.iter().flat_map(Replica::statements).any(|statement| statement.locks_session(id))
    }

    /// Whether the work of this tenure runs, healthy or not.
    pub(crate) fn runs(&self, session: Id, term: u8) -> bool {
        self.replicas.iter().any(|replica| replica.works() && replica.of == session && replica.term == term)
    }
}
