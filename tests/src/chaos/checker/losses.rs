//! A lease is lost for a reason. A deadlock, a serialization failure, a connection that the server ends is none, nor is
//! whatever happens to the connections of works.

use super::{Breach, Tenure, Violation, around, disturbed, ms};
use crate::chaos::history::{History, Span, TIMINGS};
use crate::chaos::schedule::Fault;

pub(super) fn check(history: &History, tenures: &[Tenure], violations: &mut Vec<Violation>) {
    for tenure in tenures {
        let Some(lost) = tenure.lost else { continue };
        let process = &history.processes[tenure.process];
        // An attempt that was in its way is given up after half a deadline, and leaves as much for others.
        let before = Span { from: lost - ms(TIMINGS.lease), until: lost };
        let robbed = history.disturbances.iter().any(|disturbance| {
            disturbance.timed.fault.robs(process.replica, &tenure.name) && disturbance.span.meets(before)
        });
        let silences = |fault: &Fault| fault.silences_renewals(process.replica, history.kind);
        if !robbed && !disturbed(history, process, before, silences) {
            let about = format!("nothing was in the way of {}", tenure.describe(history));
            violations.push(Violation { breach: Breach::Loss, around: around(lost), about });
        }
    }
}
