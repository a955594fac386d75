//! Statements that fail: each kind is tried less and less often, and keeps no other from being sent.

use std::collections::BTreeMap;
use std::time::Duration;

use super::LOOK_AGAIN;
use crate::clock::Moment;
use crate::protocol::messages::Statement;
use crate::timings::Timings;

/// What failed when it was last tried.
#[derive(Default)]
pub(super) struct Failures(BTreeMap<Statement, Failing>);

struct Failing {
    /// How often in a row, whatever else succeeded in between.
    times: u32,
    last: Moment,
    quiet_until: Moment,
}

impl Failures {
    pub(super) fn answered(&mut self, statement: Statement) {
        self.0.remove(&statement);
    }

    /// Whether it is the first of its series, after which a renewal is asked for and nothing more. The quiet after the second
    /// doubles with each, up to `campaign`.
    pub(super) fn failed(&mut self, statement: Statement, now: Moment, timings: &Timings) -> bool {
        let series = timings.series();
        let times = match self.0.get(&statement) {
            Some(failing) if now.since(failing.last) <= series => failing.times,
            _ => 0,
        };
        let quiet = match times {
            0 => Duration::ZERO,
            _ => LOOK_AGAIN.saturating_mul(1 << (times - 1).min(10)).min(timings.campaign),
        };
        self.0.insert(statement, Failing { times: times + 1, last: now, quiet_until: now + quiet });
        times == 0
    }

    /// When it may be sent, if it is due at that moment.
    pub(super) fn after_quiet(&self, statement: Statement, due: Moment) -> Moment {
        self.0.get(&statement).map_or(due, |failing| due.max(failing.quiet_until))
    }
}
