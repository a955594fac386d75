//! How processes ended.

use super::{Breach, Excuse, Verdict, Violation, around, disturbed, ms};
use crate::chaos::history::{History, Process, Span, TIMINGS};
use crate::chaos::schedule::{Fault, Trouble};

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let mut found = |process: &Process, why: &str| {
        let about = format!("{} ({:?}): {why}", process.log, process.status);
        verdict.violations.push(Violation {
            breach: Breach::Exit,
            around: around(process.alive.until),
            about,
        });
    };
    let mut unanswered = 0;
    for process in &history.processes {
        for why in wrong(history, process) {
            found(process, why);
        }
        if process.overdue && may_wait(history, process) {
            unanswered += 1;
        } else if process.overdue {
            found(process, "it did not stop, with nothing in its way");
        }
    }
    if unanswered > 0 {
        verdict.excused.insert(Excuse::Unanswered, unanswered);
    }
    let mut failed: Vec<_> = history.processes.iter().collect();
    failed.retain(|process| process.status == Some(1) && !has_started(process));
    failed.retain(|process| !may_fail_to_start(history, process));
    if failed.len() > 2 + history.processes.len() / 5 {
        for process in failed {
            found(process, "the start failed, with nothing in its way");
        }
    } else if !failed.is_empty() {
        verdict.excused.insert(Excuse::SlowStart, failed.len());
    }
}

fn wrong<'a>(history: &History, process: &'a Process) -> impl Iterator<Item = &'a str> {
    let status = match process.status {
        None if process.killed.is_none() && !may_die_of_sigterm(process) => Some("a signal that nobody sent"),
        Some(0) if process.asked.is_none() => Some("nobody asked it to stop"),
        // Who is asked during the start has nothing to tell.
        Some(0) if process.events.last().is_some_and(|event| !event.is("stopped")) => {
            Some("it did not say that it stopped")
        }
        Some(1) if has_started(process) => Some("its elector failed"),
        Some(70) if !may_overrun(history, process) => Some("its works obey, and nothing was in their way"),
        None | Some(0 | 1 | 70) => None,
        Some(_) => Some("no replica ends so"),
    };
    process.panic.as_deref().into_iter().chain(status)
}

/// Whether something was swallowed on a connection of this process, however long ago.
fn may_wait(history: &History, process: &Process) -> bool {
    let mut swallowed = history.disturbances.iter().filter(|disturbance| match disturbance.timed.fault {
        Fault::Link { replica, trouble: Trouble::Swallowed { .. }, .. } => replica == process.replica,
        _ => false,
    });
    swallowed.any(|disturbance| disturbance.came && disturbance.span.meets(process.alive))
}

/// Before it listens to signals.
fn may_die_of_sigterm(process: &Process) -> bool {
    process.asked.is_some() && process.events.is_empty()
}

/// A start is several statements within half a deadline, and does not dial again.
fn may_fail_to_start(history: &History, process: &Process) -> bool {
    let cut_off = history.disturbances.iter().any(|disturbance| {
        let meant = match disturbance.timed.fault {
            Fault::KillBackends { .. } => true,
            Fault::Link { replica, .. } | Fault::Reroute { replica } => replica == process.replica,
            _ => false,
        };
        meant && disturbance.span.meets(process.alive)
    });
    cut_off || silenced(history, process, process.alive)
}

fn has_started(process: &Process) -> bool {
    process.events.iter().any(|event| event.is("started"))
}

/// Work that ignores its end, or waits for an answer that does not come, or had no time to hear of it.
fn may_overrun(history: &History, process: &Process) -> bool {
    let last = Span { from: process.alive.until - 2 * ms(TIMINGS.lease), until: process.alive.until };
    process.stubborn || silenced(history, process, last)
}

fn silenced(history: &History, process: &Process, span: Span) -> bool {
    disturbed(history, process, span, |fault| fault.silences(process.replica))
}
