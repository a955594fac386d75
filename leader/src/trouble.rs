//! Statements that fail again and again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Moment;
use crate::protocol::Statement;
use crate::timings::Timings;

/// A kind of statement that fails, until that kind succeeds.
#[derive(Default)]
pub(crate) struct Trouble(Mutex<Option<Failing>>);

struct Failing {
    statement: Statement,
    since: Moment,
    last: Moment,
}

impl Trouble {
    /// Whether statements have been failing for so long that the campaign is stuck.
    pub(crate) fn is_stuck(&self, now: Moment, timings: &Timings) -> bool {
        let failing = self.lock();
        failing.as_ref().is_some_and(|failing| {
            failing.is_present(now, timings) && failing.last.since(failing.since) >= timings.deadline
        })
    }

    /// Whether a failure is the first of its series.
    pub(crate) fn begins(&self, statement: Statement, now: Moment, timings: &Timings) -> bool {
        let mut failing = self.lock();
        match failing.as_mut() {
            Some(failing) if failing.is_present(now, timings) => {
                failing.last = now;
                false
            }
            _ => {
                *failing = Some(Failing { statement, since: now, last: now });
                true
            }
        }
    }

    /// Whether an answer ends the series.
    pub(crate) fn ends(&self, statement: Statement) -> bool {
        let mut failing = self.lock();
        let ends = failing.as_ref().is_some_and(|failing| failing.statement == statement);
        if ends {
            *failing = None;
        }
        ends
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failing {
    /// What is not tried any more is not in the way any more.
    fn is_present(&self, now: Moment, timings: &Timings) -> bool {
        now.since(self.last) <= timings.series()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_series_is_told_once_and_is_stuck_after_the_deadline() {
        let timings = Timings::default();
        let trouble = Trouble::default();
        let at = |seconds: u64| Moment::after_origin(Duration::from_secs(100 + seconds));

        assert!(trouble.begins(Statement::Reap, at(0), &timings), "news");
        assert!(!trouble.begins(Statement::Reap, at(5), &timings), "no news");
        assert!(!trouble.ends(Statement::Renew), "a renewal that succeeds says nothing of the reap");
        assert!(!trouble.is_stuck(at(9), &timings));
        assert!(!trouble.begins(Statement::Reap, at(10), &timings));
        assert!(trouble.is_stuck(at(10), &timings));
        // Nobody tries any more: somebody else has reaped it.
        assert!(!trouble.is_stuck(at(60), &timings));
        assert!(trouble.begins(Statement::Reap, at(60), &timings), "a new series");
        assert!(trouble.ends(Statement::Reap));
        assert!(!trouble.ends(Statement::Reap), "once");
        assert!(!trouble.is_stuck(at(120), &timings));

        // One failure of what was not needed again.
        assert!(trouble.begins(Statement::Reap, at(200), &timings));
        for later in 200..220 {
            assert!(!trouble.is_stuck(at(later), &timings), "{later}");
        }
    }
}
