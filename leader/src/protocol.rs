//! The protocol as pure decisions: no I/O, no clock of its own, no tokio, no sqlx.
//!
//! [`Campaign`] is told what happened and when, and says which statement to send next. The keeper does what it says
//! against a [`Store`](crate::store::Store); a simulation can do the same against anything.
//!
//! # Invariants
//!
//! Numbered as in `docs/design.md`, and named by these numbers in code and tests.
//!
//! - **I1** A claim moves a name only when the very session it points to is known to be gone.
//! - **I2** A term grows with every claim and is never reset; `(session, term)` identifies a tenure, and both are
//!   compared, always.
//! - **I3** As long as a fenced transaction is open, no claim of that name can succeed.
//! - **I4** A tenure starts only after its claim is known to be committed; its name is released only after its future
//!   has ended. A replica never campaigns for a name under which work of its own is still running.
//! - **I5** One statement on the wire at a time; what cannot be confirmed before the deadline counts as lost; results of
//!   an attempt that was given up are ignored.
//! - **I6** A lost session is never revived; a new one takes its place, always.
//! - **I7** A claim whose answer was lost is found by the digest, released and campaigned for anew, never adopted.
//! - **I8** A process frozen inside a fenced transaction delays the takeover by at most 10 s.

mod campaign;
mod messages;
mod session;
#[cfg(test)]
mod simulation;

use std::fmt;

pub(crate) use campaign::Campaign;
pub use messages::Statement;
pub(crate) use messages::{Attempt, Effect, Failure, Next, Reply, Request, Standing};
pub(crate) use session::Session;

use crate::name::WorkName;

/// The id of a session: random, 128 bits, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    /// An id from 128 random bits.
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }

    /// Reads back what `Display` wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().map(Self).filter(|id| id.to_string() == text)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The fencing token of a tenure: it grows with every claim of the name and is never reset.
///
/// Hand it to systems outside the database, so that they can refuse a smaller one than they have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(i64);

impl Term {
    pub(crate) const fn new(term: i64) -> Self {
        Self(term)
    }

    /// The term as a number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a tenure is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// The replica shuts down. The lease is kept until the work has returned.
    ShuttingDown,
    /// The lease could not be renewed in time, or the database says that it is gone. The process ends if the work still
    /// runs after the grace.
    LeaseLost,
    /// The replica gives this name back. The lease is kept until the work has returned.
    SteppedDown,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ShuttingDown => "shutting down",
            Self::LeaseLost => "lease lost",
            Self::SteppedDown => "stepped down",
        })
    }
}

impl std::error::Error for Ending {}

/// What a session holds, small enough to come with every renewal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How many names.
    pub count: u64,
    /// The sum of their terms.
    pub terms: i64,
}

impl Digest {
    pub(crate) fn add(&mut self, term: Term) {
        self.count += 1;
        self.terms = self.terms.wrapping_add(term.0);
    }
}

/// A name under the term that one session won it with.
pub type Hold = (WorkName, Term);

/// What a scan saw of a name that no live session holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacancy {
    /// The name.
    pub name: WorkName,
    /// The session its row points to, if any.
    pub holder: Option<Holder>,
}

/// The session that a vacant name's row points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It has no row any more, and never will again.
    Gone(SessionId),
    /// It has a row that has expired: to be reaped.
    Expired(SessionId),
}

/// What one look at the tables shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Names that no live session holds.
    pub vacancies: Vec<Vacancy>,
    /// Sessions that have expired, those that hold no name among them, and the replicas that had them.
    pub expired: Vec<(SessionId, String)>,
    /// How long until the next live session expires.
    pub next_expiry: Option<std::time::Duration>,
    /// How many names have a row. The protocol deletes none, so a change means that others were added or an operator
    /// was here.
    pub rows: u64,
}

/// Why a standby may have something to do.
///
/// Anybody who may write to the database can make one up, so it only says when to send a statement and never decides
/// what the statement does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// These names were given back.
    Freed(Vec<WorkName>),
    /// Something else may have changed.
    Look,
}
