//! What happened in a run: what the replicas said and wrote, and what was done to them.
//!
//! All times are those of the machine's wall clock, in milliseconds.

use std::collections::BTreeMap;
use std::time::Duration;

use leader::Timings;
use serde::Serialize;

use super::conditions::Conditions;
use super::schedule::Timed;
use crate::harness::database::LedgerRow;
use crate::harness::{Event, Kind, Launch};

/// The works that every replica registers: name and kind.
pub const WORKS: [(&str, &str); 4] = [
    ("ledger", "ledger"),
    ("slow-ledger", "slow-ledger"),
    ("returns", "returns"),
    ("slow-stop", "slow-stop"),
];

/// The work that ignores its end, which some processes register as well.
pub const STUBBORN: &str = "stubborn";

/// Those of the tests, with more grace than is left at the deadline: as by default, it is the end of the lease that ends a
/// process then.
pub const TIMINGS: Timings = Timings { grace: Duration::from_millis(1500), ..Launch::TIMINGS };

/// What happened in a run.
#[derive(Clone, Debug, Serialize)]
pub struct History {
    /// On which database.
    pub kind: Kind,
    /// Under which conditions.
    pub conditions: Conditions,
    /// What of them was not there, before the first start or after the last end.
    pub unmet: Vec<String>,
    /// How many transactions PgBouncer has carried since its last start.
    pub pooled: u64,
    /// From the first start to the last order to stop.
    pub watched: Span,
    /// Every process of a replica.
    pub processes: Vec<Process>,
    /// What was done to the database and to connections.
    pub disturbances: Vec<Disturbance>,
    /// When the machine was too busy for anybody.
    pub stalls: Vec<Span>,
    /// How many messages met each trouble of a link.
    pub met: BTreeMap<String, usize>,
    /// The ledger in the order of its ids.
    pub rows: Vec<Row>,
    /// Rows that were there once.
    pub vanished: Vec<Row>,
}

/// From one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The first millisecond.
    pub from: i64,
    /// The end.
    pub until: i64,
}

/// A process of a replica.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    /// Which replica.
    pub replica: usize,
    /// What it is called in its rows.
    pub instance: String,
    /// Whether it registered [`STUBBORN`].
    pub stubborn: bool,
    /// From its start to the moment when its end was noticed.
    pub alive: Span,
    /// All that it printed.
    pub events: Vec<Event>,
    /// While it was frozen.
    pub frozen: Vec<Span>,
    /// Since when it was asked to stop.
    pub asked: Option<i64>,
    /// When it was killed.
    pub killed: Option<i64>,
    /// Whether it was killed because it would not stop with nothing in its way.
    pub overdue: bool,
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// A line of its log about a panic.
    pub panic: Option<String>,
    /// How many of its transactions the database could not serialize.
    pub conflicts: usize,
    /// The file of its log.
    pub log: String,
    /// What was done to it.
    pub faults: Vec<Timed>,
}

/// Something that was done to the database or to connections.
#[derive(Clone, Debug, Serialize)]
pub struct Disturbance {
    /// What was due.
    pub timed: Timed,
    /// From the first attempt to when it was over.
    pub span: Span,
    /// Whether it took effect: a lock was had, a connection ended, a row deleted, a message met.
    pub came: bool,
    /// Of a failover: what was committed then, the new primary may have missed.
    pub missed: Option<Span>,
}

/// A row of the ledger.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its number.
    pub id: i64,
    /// What was written.
    pub row: LedgerRow,
    /// When somebody last looked and did not see it: it was committed after that.
    pub unseen: Option<i64>,
    /// When somebody had seen it first: it was committed before that.
    pub seen: i64,
}

impl Span {
    /// Whether the two have a moment in common.
    pub fn meets(self, other: Self) -> bool {
        self.from <= other.until && other.from <= self.until
    }

    /// How long it is.
    pub fn length(self) -> i64 {
        self.until - self.from
    }

    /// What the two have in common.
    pub fn within(self, other: Self) -> Option<Self> {
        let span = Self { from: self.from.max(other.from), until: self.until.min(other.until) };
        (span.from < span.until).then_some(span)
    }

    /// What is left of it without any of these.
    pub fn without(self, mut holes: Vec<Self>) -> Vec<Self> {
        holes.sort_by_key(|hole| hole.from);
        let mut left = Vec::new();
        let mut from = self.from;
        for hole in holes {
            left.extend(Self { from, until: hole.from }.within(self));
            from = from.max(hole.until);
        }
        left.extend(Self { from, until: self.until }.within(self));
        left
    }
}

impl Process {
    /// When it ended at the earliest.
    pub fn end(&self) -> i64 {
        self.killed.unwrap_or(self.alive.until)
    }
}

impl History {
    /// The faults that took effect.
    pub fn came(&self) -> impl Iterator<Item = &Timed> {
        let of_processes = self.processes.iter().flat_map(|process| &process.faults);
        let others = self.disturbances.iter().filter(|disturbance| disturbance.came);
        of_processes.chain(others.map(|disturbance| &disturbance.timed))
    }

    /// For how long this process could run in this span.
    pub fn awake(&self, process: usize, span: Span) -> i64 {
        let idle = [self.stalls.as_slice(), &self.processes[process].frozen].concat();
        span.without(idle).into_iter().map(Span::length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: i64, until: i64) -> Span {
        Span { from, until }
    }

    #[test]
    fn what_is_left_of_a_span() {
        assert_eq!(span(0, 10).without(vec![]), [span(0, 10)]);
        assert_eq!(span(0, 10).without(vec![span(7, 20), span(-5, 2), span(3, 4)]), [span(2, 3), span(4, 7)]);
        assert_eq!(span(0, 10).without(vec![span(2, 8), span(3, 4)]), [span(0, 2), span(8, 10)]);
        assert_eq!(span(0, 10).without(vec![span(-1, 11)]), []);
        assert_eq!(span(0, 10).without(vec![span(20, 30)]), [span(0, 10)]);
    }
}
