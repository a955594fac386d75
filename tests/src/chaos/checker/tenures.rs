//! Tenures of one name never overlap, and their terms grow.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Breach, End, Excuse, Tenure, Verdict, Violation, ms, obedience};
use crate::chaos::history::{History, Span, TIMINGS};

/// How long after its claim was committed a tenure may begin, and what meets it in between: an answer that took longer than an attempt starts none.
const CLAIM: Duration = Duration::from_secs(2);

pub(super) fn check(history: &History, tenures: &[Tenure], verdict: &mut Verdict) {
    let mut names: BTreeMap<&str, Vec<&Tenure>> = BTreeMap::new();
    for tenure in tenures {
        obeys(history, tenure, &mut verdict.violations);
        names.entry(&tenure.name).or_default().push(tenure);
    }
    for tenures in names.values_mut() {
        tenures.sort_by_key(|tenure| tenure.term);
        for (place, earlier) in tenures.iter().enumerate() {
            for later in &tenures[place + 1..] {
                compare(history, earlier, later, verdict);
            }
        }
    }
}

/// Who has lost the lease is gone when the grace is over, and a process that says that it ends does.
fn obeys(history: &History, tenure: &Tenure, violations: &mut Vec<Violation>) {
    let mut bound = |from, until, bound| {
        let run_on = Span { from, until };
        if history.awake(tenure.process, run_on) > bound {
            let about = tenure.describe(history);
            violations.push(Violation { breach: Breach::Grace, around: run_on, about });
        }
    };
    if let Some(lost) = tenure.lost {
        bound(lost, tenure.span.until, ms(TIMINGS.grace) + obedience());
    }
    if tenure.end == End::Overrun {
        bound(tenure.span.until, history.processes[tenure.process].end(), obedience());
    }
}

/// Two tenures of a name in the order of their terms.
fn compare(history: &History, earlier: &Tenure, later: &Tenure, verdict: &mut Verdict) {
    let mut found = |breach| {
        let around = Span { from: later.span.from.min(earlier.span.until), until: earlier.span.until };
        let about = format!("{}; {}", earlier.describe(history), later.describe(history));
        verdict.violations.push(Violation { breach, around, about });
    };
    if earlier.term == later.term {
        found(Breach::TermTwice);
    }
    let reversed = Span { from: later.span.from, until: earlier.span.from };
    if history.awake(earlier.process, reversed) > ms(CLAIM) {
        found(Breach::TermFell);
    } else if later.span.from < earlier.span.until {
        match excuse(history, earlier, later) {
            Some(excuse) => *verdict.excused.entry(excuse).or_default() += 1,
            None => found(Breach::Overlap),
        }
    }
}

fn excuse(history: &History, earlier: &Tenure, later: &Tenure) -> Option<Excuse> {
    // The last renewal that succeeded is at most the deadline older than the freeze, and who wakes up before the lease can
    // expire has no successor.
    let shortest = ms(TIMINGS.lease) - ms(TIMINGS.deadline);
    let process = &history.processes[earlier.process];
    let soon_after = |cause: Span, bound: i64| {
        let to_its_end = Span { from: cause.until, until: earlier.span.until };
        cause.from <= later.span.from
            && cause.until >= earlier.span.from - ms(CLAIM)
            && history.awake(earlier.process, to_its_end) <= bound
    };
    if process.frozen.iter().any(|frozen| frozen.length() >= shortest && soon_after(*frozen, obedience())) {
        return Some(Excuse::Frozen);
    }
    let robbed = history.disturbances.iter().any(|disturbance| {
        disturbance.timed.fault.robs(process.replica, &earlier.name)
            && soon_after(disturbance.span, ms(TIMINGS.lease))
    });
    robbed.then_some(Excuse::Robbed)
}
