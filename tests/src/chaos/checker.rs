//! Finds in a history what the promises rule out.
//!
//! All processes run on one machine, so their clocks are one clock. A tenure begins for this purpose when `elected` is
//! stamped, which is after the claim was committed and before the work runs; it ends when `stepped_down` is stamped, which
//! is after the work has gone and before the name is given back. What remains to be decided is when two tenures of one
//! name may overlap all the same; see [`Excuse`].

mod events;
mod exits;
mod gaps;
mod ledger;
mod losses;
mod tenures;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::history::{History, Process, Span, TIMINGS};
use super::schedule::{Fault, Trouble, Whose};
use crate::harness::Kind;

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    /// How many tenures each name had.
    pub tenures: BTreeMap<String, usize>,
    /// How many rows the ledger has.
    pub rows: usize,
    /// How many rows failovers lost.
    pub vanished: usize,
    /// What looks like a violation and is none.
    pub excused: BTreeMap<Excuse, usize>,
    /// The longest time without a tenure while one replica and the database were well, in milliseconds.
    pub longest_gap: i64,
    /// For how long one replica and the database were well without a break that is longer than a gap may be.
    pub judged: i64,
    /// What the promises rule out.
    pub violations: Vec<Violation>,
}

/// Why something that looks like a violation is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Excuse {
    /// The earlier one's process was frozen past the end of its lease, and has ended it soon after it woke up.
    Frozen,
    /// An operator or a failover took the lease away, and the earlier one has ended before it would have expired.
    Robbed,
    /// No overlap: a start that failed with nothing in its way. It has half the deadline, and the machine is busy. A
    /// violation where it is not the exception.
    SlowStart,
    /// No overlap: a process that did not stop in time. Its works may wait for an answer that was swallowed: while the lease
    /// is kept nobody ends that but whoever stops the process.
    Unanswered,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// What kind of thing.
    pub breach: Breach,
    /// When.
    pub around: Span,
    /// What exactly.
    pub about: String,
}

/// What a violation breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Breach {
    /// Two tenures of a name ran at the same time.
    Overlap,
    /// A work ran on after its lease was lost, for longer than its grace (promise 4).
    Grace,
    /// Two tenures have one term (I2).
    TermTwice,
    /// A later tenure has a smaller term (I2).
    TermFell,
    /// Events of one process that do not fit each other.
    Events,
    /// A row of the ledger that no tenure explains.
    Row,
    /// A row that was committed after a successor had been elected (promise 2).
    StaleRow,
    /// A row that was there once, and no failover took it.
    LostRow,
    /// A lease that was lost with nothing in its way.
    Loss,
    /// Nobody led although one replica and the database were well.
    Gap,
    /// A process ended as none should.
    Exit,
}

/// One stretch of one process running one work.
#[derive(Clone, Debug)]
struct Tenure {
    process: usize,
    name: String,
    term: i64,
    span: Span,
    lost: Option<i64>,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    SteppedDown,
    Overrun,
    /// Of the process, before the work's.
    Death,
}

/// Finds all there is.
pub fn check(history: &History) -> Verdict {
    let (rows, vanished) = (history.rows.len(), history.vanished.len());
    let mut verdict = Verdict { rows, vanished, ..Verdict::default() };
    let tenures = events::tenures(history, &mut verdict.violations);
    for tenure in &tenures {
        *verdict.tenures.entry(tenure.name.clone()).or_default() += 1;
    }
    tenures::check(history, &tenures, &mut verdict);
    ledger::check(history, &tenures, &mut verdict.violations);
    losses::check(history, &tenures, &mut verdict.violations);
    gaps::check(history, &tenures, &mut verdict);
    exits::check(history, &mut verdict);
    verdict.violations.sort_by_key(|violation| violation.around.from);
    verdict
}

impl Tenure {
    fn describe(&self, history: &History) -> String {
        let Self { name, term, span, lost, end, .. } = self;
        let process = &history.processes[self.process];
        let [from, until] = [span.from, span.until].map(|at| at - history.watched.from);
        let instance = &process.instance;
        let lost = lost.map_or("no time".to_owned(), |lost| (lost - history.watched.from).to_string());
        format!(
            "{name} term {term} of {instance} ({}) from {from} to {until} ms, lost at {lost}, {end:?}",
            process.log
        )
    }
}

impl Fault {
    /// Whether it takes the lease of a tenure away: an operator does, or a failover that has lost it.
    fn robs(&self, replica: usize, name: &str) -> bool {
        match self {
            Self::EmptyTables | Self::DropTables { .. } | Self::RestoreTables | Self::FailOver => true,
            Self::DeleteSessions { replica: of } => *of == replica,
            Self::DeleteName { name: of } => *of == name,
            _ => false,
        }
    }

    /// Whether statements of this replica may go unanswered meanwhile. Those that fail in passing are sent again.
    fn silences(&self, replica: usize) -> bool {
        match self {
            Self::Link { trouble: Trouble::Failing { .. }, .. } => false,
            Self::Link { replica: of, .. } => *of == replica,
            Self::Restart { .. }
            | Self::FreezeServer
            | Self::ReadOnly
            | Self::FailOver
            | Self::KillPooler
            | Self::FreezePooler
            | Self::DropTables { .. }
            | Self::RestoreTables
            | Self::Lock
            | Self::LockRows { .. } => true,
            _ => false,
        }
    }

    /// Whether renewals may. They have a connection of their own, ask PostgreSQL for a transaction that writes, and wait for
    /// no lock on a name.
    fn silences_renewals(&self, replica: usize, kind: Kind) -> bool {
        match self {
            Self::Link { whose: Whose::Works, .. } => false,
            Self::ReadOnly => kind != Kind::Postgres,
            Self::LockRows { table } => *table == "leader_sessions",
            _ => self.silences(replica),
        }
    }
}

/// Whether a fault that silences came in this span, or the process itself may not have run.
fn disturbed(history: &History, process: &Process, span: Span, silences: impl Fn(&Fault) -> bool) -> bool {
    let faulty = history
        .disturbances
        .iter()
        .any(|disturbance| silences(&disturbance.timed.fault) && disturbance.span.meets(span));
    let stalled = history.stalls.iter().any(|stall| stall.meets(span));
    let mut frozen = history.processes.iter().filter(|frozen| {
        // On SQLite a frozen writer blocks every writer of the file.
        frozen.replica == process.replica || history.kind == Kind::Sqlite
    });
    faulty || stalled || frozen.any(|process| process.frozen.iter().any(|frozen| frozen.meets(span)))
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.breach, self.about)
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("a small number")
}

const fn around(at: i64) -> Span {
    Span { from: at, until: at }
}

/// For what takes long because the machine is busy, and nothing else.
const SLACK: Duration = Duration::from_millis(500);

/// How soon after a process woke up its works are gone, or it is: they are told, have the margin, and the exit lets its
/// last words out.
fn obedience() -> i64 {
    const LAST_WORDS: Duration = Duration::from_millis(100);
    ms(TIMINGS.margin + LAST_WORDS + SLACK)
}
