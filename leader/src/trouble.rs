//! Statements that fail again and again.

use std::mem::{Discriminant, discriminant};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Moment;
use crate::protocol::Request;
use crate::timings::Timings;

/// A kind of statement that fails, until that kind succeeds.
#[derive(Default)]
pub(crate) struct Trouble(Mutex<Option<Failing>>);

struct Failing {
    kind: Discriminant<Request>,
    since: Moment,
    last: Moment,
}

impl Trouble {
    /// Whether statements have been failing for so long that the campaign is stuck.
    pub(crate) fn is_stuck(&self, now: Moment, timings: &Timings) -> bool {
        let failing = self.lock();
        failing.as_ref().is_some_and(|failing| {
            failing.is_present(now, timings) && now.since(failing.since) >= timings.deadline
        })
    }

    /// Whether a failure is the first of its series.
    pub(crate) fn goes_on(&self, request: &Request, now: Moment, timings: &Timings) -> bool {
        let mut failing = self.lock();
        match failing.as_mut() {
            Some(failing) if failing.is_present(now, timings) => {
                failing.last = now;
                false
            }
            _ => {
                *failing = Some(Failing { kind: discriminant(request), since: now, last: now });
                true
            }
        }
    }

    /// Whether an answer ends the series.
    pub(crate) fn ends(&self, request: &Request) -> bool {
        let mut failing = self.lock();
        let ends = failing.as_ref().is_some_and(|failing| failing.kind == discriminant(request));
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
        now.since(self.last) <= timings.campaign * 2 + timings.attempt()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::SessionId;

    #[test]
    fn a_series_is_told_once_and_is_stuck_after_the_deadline() {
        let timings = Timings::default();
        let trouble = Trouble::default();
        let at = |seconds: u64| Moment::after_origin(Duration::from_secs(100 + seconds));
        let (id, ids) = (SessionId::new(1), vec![SessionId::new(2)]);
        let (renew, reap) = (Request::Renew { id }, Request::Reap { ids });

        assert!(trouble.goes_on(&reap, at(0), &timings), "news");
        assert!(!trouble.goes_on(&reap, at(5), &timings), "no news");
        assert!(!trouble.ends(&renew), "a renewal that succeeds says nothing of the reap");
        assert!(!trouble.is_stuck(at(9), &timings));
        assert!(!trouble.goes_on(&reap, at(10), &timings));
        assert!(trouble.is_stuck(at(10), &timings));
        // Nobody tries any more: somebody else has reaped it.
        assert!(!trouble.is_stuck(at(60), &timings));
        assert!(trouble.goes_on(&reap, at(60), &timings), "a new series");
        assert!(trouble.ends(&reap));
        assert!(!trouble.ends(&reap), "once");
        assert!(!trouble.is_stuck(at(120), &timings));
    }
}
