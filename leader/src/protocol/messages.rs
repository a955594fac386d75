//! What goes in and out of a [`Campaign`](super::Campaign).

use std::fmt;
use std::sync::Arc;

use crate::clock::Moment;
use crate::name::WorkName;
use crate::protocol::Ending;
use crate::protocol::campaign::Fenced;
use crate::protocol::{Digest, Hold, Scan, SessionId, Term};

/// Where a replica stands with one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It campaigns, from this moment on.
    Standby { from: Moment },
    /// Its work runs; `told` once it was asked to end.
    Leading { session: SessionId, term: Term, told: Option<Ending> },
    /// The work has ended and the name is still to be given back.
    Releasing { session: SessionId, term: Term, from: Moment },
    /// The lease is lost and the work still runs: nothing is campaigned for (I4).
    Lost { session: SessionId, term: Term },
}

/// A statement to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Create the tables, or check that they are there.
    Prepare,
    /// Give each name a row.
    Ensure {
        names: Vec<WorkName>,
    },
    Open {
        id: SessionId,
    },
    Renew {
        id: SessionId,
    },
    /// What the session holds.
    Held {
        id: SessionId,
    },
    Scan {
        id: SessionId,
    },
    Reap {
        ids: Vec<SessionId>,
    },
    Claim {
        id: SessionId,
        names: Vec<WorkName>,
        gone: Vec<SessionId>,
    },
    Release {
        id: SessionId,
        holds: Vec<Hold>,
    },
    /// End the transactions that keep these names from being claimed.
    EndFenced {
        fenced: Vec<(WorkName, SessionId)>,
    },
    Close {
        id: SessionId,
    },
}

/// A statement of the protocol, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the statements of docs/design.md, by their names")]
pub enum Statement {
    Prepare,
    Ensure,
    Open,
    Renew,
    Held,
    Scan,
    Reap,
    Claim,
    Release,
    EndFenced,
    Close,
}

impl Statement {
    /// The word for it in docs/design.md.
    pub fn word(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Ensure => "ensure",
            Self::Open => "open",
            Self::Renew => "renew",
            Self::Held => "held",
            Self::Scan => "scan",
            Self::Reap => "reap",
            Self::Claim => "claim",
            Self::Release => "release",
            Self::EndFenced => "end fenced",
            Self::Close => "close",
        }
    }
}

impl Request {
    pub(crate) fn statement(&self) -> Statement {
        match self {
            Self::Prepare => Statement::Prepare,
            Self::Ensure { .. } => Statement::Ensure,
            Self::Open { .. } => Statement::Open,
            Self::Renew { .. } => Statement::Renew,
            Self::Held { .. } => Statement::Held,
            Self::Scan { .. } => Statement::Scan,
            Self::Reap { .. } => Statement::Reap,
            Self::Claim { .. } => Statement::Claim,
            Self::Release { .. } => Statement::Release,
            Self::EndFenced { .. } => Statement::EndFenced,
            Self::Close { .. } => Statement::Close,
        }
    }
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
    Released {
        kept: Vec<Hold>,
    },
    FencedEnded {
        transactions: u64,
    },
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
    /// Wait until then, or for a [`Hint`](super::Hint) if `hints`.
    Wait {
        until: Moment,
        hints: bool,
    },
    /// The shutdown is complete.
    Done,
}

/// What must happen outside the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A session was opened or renewed by the attempt that began at `good`.
    Trusted {
        session: SessionId,
        good: Moment,
    },
    SessionLost {
        session: SessionId,
        why: Loss,
    },
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
    Released {
        name: WorkName,
        term: Term,
    },
    /// What was held at `started` is what runs here.
    Confirmed {
        started: Moment,
    },
    /// Another replica's session was found dead.
    Reaped {
        session: SessionId,
        instance: Option<Arc<str>>,
    },
    /// A name has no holder any more, and a transaction of its last one keeps it from being claimed.
    Fenced {
        name: WorkName,
        fenced: Fenced,
    },
    /// That is over.
    NotFenced {
        name: WorkName,
    },
    /// Transactions that did so were ended.
    FencedEnded {
        transactions: u64,
    },
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
