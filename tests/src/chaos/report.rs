//! A run in figures, and what led to a violation.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::checker::{Verdict, Violation, check};
use super::conditions::Conditions;
use super::history::{History, Span};
use super::schedule::Timed;
use super::untested::untested;

/// A run in figures.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// On which database.
    pub database: String,
    /// What its conditions and its schedule were drawn from.
    pub seed: u64,
    /// Under which conditions it was.
    pub conditions: Conditions,
    /// How many transactions PgBouncer has carried since its last start.
    pub pooled: u64,
    /// How long it was watched.
    pub seconds: i64,
    /// How many processes there were.
    pub processes: usize,
    /// How many transactions the database could not serialize.
    pub conflicts: usize,
    /// How many faults of each kind took effect.
    pub faults: BTreeMap<String, usize>,
    /// How many messages met each trouble of a link.
    pub met: BTreeMap<String, usize>,
    /// What should have been tested, and was not.
    pub untested: Vec<String>,
    /// For how long the machine stalled, in milliseconds.
    pub stalled: i64,
    /// What the checker found.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Where the logs and the history are, if something was found.
    pub logs: Option<PathBuf>,
    /// What happened around the first violations.
    #[serde(skip)]
    context: String,
}

impl Report {
    /// Checks a history and counts.
    pub fn of(seed: u64, history: &History, logs: &Path) -> Self {
        let verdict = check(history);
        let mut faults = BTreeMap::new();
        for timed in history.came() {
            *faults.entry(timed.label()).or_default() += 1;
        }
        let untested = untested(history, &verdict);
        let mut violations: Vec<_> = verdict.violations.iter().collect();
        violations.dedup_by_key(|violation| violation.around.from / 1_000);
        let context = violations.into_iter().take(3).map(|violation| context(history, violation));
        Self {
            database: history.kind.to_string(),
            seed,
            conditions: history.conditions,
            pooled: history.pooled,
            conflicts: history.processes.iter().map(|process| process.conflicts).sum(),
            seconds: history.watched.length() / 1_000,
            processes: history.processes.len(),
            faults,
            met: history.met.clone(),
            stalled: history.stalls.iter().map(|stall| stall.length()).sum(),
            logs: (!verdict.violations.is_empty() || !untested.is_empty()).then(|| logs.to_owned()),
            untested,
            context: context.collect(),
            verdict,
        }
    }

    /// Whether something was tested, and nothing found.
    pub fn is_good(&self) -> bool {
        self.verdict.violations.is_empty() && self.untested.is_empty()
    }
}

/// All of them in one object, by database.
///
/// # Panics
///
/// Never: everything in a report has a form in JSON.
pub fn reports_as_json(reports: &[Report]) -> String {
    serde_json::to_string_pretty(reports).expect("plain data")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, seed, conditions, seconds, processes, faults, met, untested, .. } = self;
        let Self { pooled, conflicts, stalled, verdict, logs, context, .. } = self;
        let all: usize = faults.values().sum();
        writeln!(f, "{database}: seed {seed}, {conditions}, {seconds} s, {processes} processes")?;
        writeln!(f, "    {all} faults: {}", listed(faults))?;
        if !met.is_empty() {
            writeln!(f, "    messages: {}", listed(met))?;
        }
        if conditions.route.is_pooled() {
            writeln!(f, "    {pooled} transactions by PgBouncer since its last start")?;
        }
        let all: usize = verdict.tenures.values().sum();
        writeln!(f, "    {all} tenures: {}", listed(&verdict.tenures))?;
        let excused: BTreeMap<_, _> = verdict
            .excused
            .iter()
            .map(|(excuse, count)| (format!("{excuse:?}").to_lowercase(), *count))
            .collect();
        let excused = if excused.is_empty() { "none".to_owned() } else { listed(&excused) };
        writeln!(f, "    excused: {excused}")?;
        writeln!(
            f,
            "    {} rows, and {} that failovers lost; {conflicts} transactions that were no series",
            verdict.rows, verdict.vanished
        )?;
        writeln!(f, "    the machine stalled for {stalled} ms")?;
        writeln!(
            f,
            "    longest gap {} ms while one replica and the database were well; judged for {} s",
            verdict.longest_gap,
            verdict.judged / 1_000
        )?;
        if !untested.is_empty() {
            writeln!(f, "    nothing was tested: not {}", untested.join(", not "))?;
        }
        write!(f, "    violations: {}", verdict.violations.len())?;
        if let Some(logs) = logs {
            write!(f, ", logs and history in {}", logs.display())?;
        }
        for violation in verdict.violations.iter().take(20) {
            write!(f, "\n  {violation}")?;
        }
        write!(f, "{context}")
    }
}

fn listed(counts: &BTreeMap<String, usize>) -> String {
    let counts = counts.iter().map(|(what, count)| format!("{what} {count}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// Events, freezes and faults around a violation, in the order of their times.
fn context(history: &History, violation: &Violation) -> String {
    const BEFORE: i64 = 6_000;
    const AFTER: i64 = 1_000;

    let around = Span { from: violation.around.from - BEFORE, until: violation.around.until + AFTER };
    let mut lines = Vec::new();
    for process in &history.processes {
        let who = &process.instance;
        for event in process.events.iter().filter(|event| (around.from..=around.until).contains(&event.at_ms))
        {
            let name = event.name.as_deref().unwrap_or_default();
            let term = event.term.map(|term| term.to_string()).unwrap_or_default();
            let reason = event.reason.as_deref().unwrap_or_default();
            lines.push((event.at_ms, format!("{who}: {} {name} {term} {reason}", event.event)));
        }
        let spans = process.frozen.iter().filter(|frozen| frozen.meets(around));
        lines.extend(spans.map(|frozen| (frozen.from, format!("{who}: frozen for {} ms", frozen.length()))));
        let ends =
            [(process.asked, "SIGTERM"), (process.killed, "SIGKILL"), (Some(process.alive.until), "gone")];
        let ends = ends.into_iter().filter_map(|(at, what)| at.map(|at| (at, what)));
        let ends = ends.filter(|(at, _)| (around.from..=around.until).contains(at));
        lines.extend(
            ends.map(|(at, what)| (at, format!("{who}: {what} ({:?}, {})", process.status, process.log))),
        );
    }
    let stalls = history.stalls.iter().filter(|stall| stall.meets(around));
    lines.extend(stalls.map(|stall| (stall.from, format!("the machine stalled for {} ms", stall.length()))));
    for disturbance in history.disturbances.iter().filter(|disturbance| disturbance.span.meets(around)) {
        let Timed { fault, .. } = &disturbance.timed;
        let length = disturbance.span.length();
        let came = if disturbance.came { "" } else { ", in vain" };
        lines.push((disturbance.span.from, format!("{fault:?} for {length} ms{came}")));
    }
    lines.sort();
    let mut text = format!("\n\n{violation}\nafter {} faults\n", history.came().count());
    for (at, line) in lines {
        let _ = writeln!(text, "    {:>7} ms  {line}", at - history.watched.from);
    }
    text
}
