//! Nobody leads for longer than the bound only while no replica, or not the database, is well.

use std::time::Duration;

use super::{Breach, Tenure, Verdict, Violation, ms};
use crate::chaos::history::{History, Process, Span, TIMINGS, WORKS};
use crate::chaos::schedule::{Fault, REPLICAS, Trouble, Whose};
use crate::harness::Kind;

/// The lease of the last leader, what a standby waits on top of that, and, if it is the one that led before, the time
/// that it leaves to others; the rest is for the machine.
const BOUND: Duration = TIMINGS
    .lease
    .saturating_add(Duration::from_millis(300))
    .saturating_add(TIMINGS.campaign)
    .saturating_add(Duration::from_millis(200))
    .saturating_add(Duration::from_secs(2));

/// On top of that, where nothing wakes a standby: it may have looked just before a name was given back.
const LOOK: Duration = TIMINGS.campaign.saturating_add(Duration::from_millis(200));

/// How long a replica is not judged after something was done to it: what it sent before is given up after half the
/// deadline, what failed again and again is tried after `campaign`, and work of its own has its grace.
const RECOVERY: Duration = Duration::from_secs(2);

pub(super) fn check(history: &History, tenures: &[Tenure], verdict: &mut Verdict) {
    let bound = ms(if history.conditions.route.is_pooled() { BOUND + LOOK } else { BOUND });
    let well: Vec<Vec<Span>> = (0..REPLICAS).map(|replica| well(history, replica)).collect();
    let long = well.iter().flatten().filter(|span| span.length() > bound).copied().collect();
    let unjudged: i64 = history.watched.without(long).into_iter().map(Span::length).sum();
    verdict.judged = history.watched.length() - unjudged;
    for (name, _) in WORKS {
        let running = tenures.iter().filter(|tenure| tenure.name == name);
        // A frozen process runs nothing.
        let running = running
            .flat_map(|tenure| tenure.span.without(history.processes[tenure.process].frozen.clone()))
            .collect();
        for gap in history.watched.without(running) {
            for (replica, well) in well.iter().enumerate() {
                for part in well.iter().filter_map(|well| well.within(gap)) {
                    verdict.longest_gap = verdict.longest_gap.max(part.length());
                    if part.length() > bound {
                        let about = format!(
                            "nobody led {name} for {} ms while replica {replica} and the database were well, {bound} allowed",
                            part.length(),
                        );
                        verdict.violations.push(Violation { breach: Breach::Gap, around: part, about });
                    }
                }
            }
        }
    }
}

/// When a replica, its way to the database and the database itself were well.
fn well(history: &History, replica: usize) -> Vec<Span> {
    let of_replica = |process: &&Process| process.replica == replica;
    let up = history.processes.iter().filter(of_replica).filter_map(up).collect();
    let mut ill = history.watched.without(up);
    for process in &history.processes {
        // On SQLite a frozen writer blocks every writer of the file.
        if process.replica == replica || history.kind == Kind::Sqlite {
            ill.extend(&process.frozen);
        }
    }
    ill.extend(&history.stalls);
    let disturbing = history.disturbances.iter().filter(|disturbance| match disturbance.timed.fault {
        // What fails in passing is sent again, and nobody is elected by connections of works.
        Fault::Link { trouble: Trouble::Failing { .. }, .. } | Fault::Link { whose: Whose::Works, .. } => {
            false
        }
        Fault::Link { replica: of, .. } | Fault::Reroute { replica: of } => of == replica,
        // The keeper asks for transactions that write.
        Fault::ReadOnly => history.kind != Kind::Postgres,
        _ => true,
    });
    ill.extend(disturbing.map(|disturbance| disturbance.span));
    for span in &mut ill {
        span.until += ms(RECOVERY);
    }
    history.watched.without(ill)
}

/// While it campaigned.
fn up(process: &Process) -> Option<Span> {
    let started = process.events.iter().find(|event| event.is("started"))?;
    let until = process.end().min(process.asked.unwrap_or(i64::MAX));
    Some(Span { from: started.at_ms, until })
}
