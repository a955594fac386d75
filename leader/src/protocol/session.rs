//! How long a session may be trusted.

use crate::clock::Moment;
use crate::protocol::SessionId;
use crate::timings::Timings;

/// A session as its owner sees it: attempts go in, the time until which it may be trusted comes out.
///
/// Trust is counted from the *start* of an attempt: the database's clock had not passed that moment when it pushed the
/// expiry, so the lease lasts at least until then plus `lease`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The start of the last attempt that succeeded.
    pub(crate) good: Moment,
    /// The start of the last attempt.
    tried: Moment,
    /// Whether the last attempt succeeded.
    pub(crate) sound: bool,
}

impl Session {
    /// A session whose opening was answered; `started` is when it was sent.
    pub(crate) fn opened(id: SessionId, started: Moment) -> Self {
        Self {
            id,
            good: started,
            tried: started,
            sound: true,
        }
    }

    /// A renewal was sent.
    pub(crate) fn trying(&mut self, started: Moment) {
        self.tried = started;
    }

    /// The renewal that was sent at `started` succeeded.
    pub(crate) fn renewed(&mut self, started: Moment) {
        self.good = self.good.max(started);
        self.sound = true;
    }

    /// A renewal failed or was given up.
    pub(crate) fn unanswered(&mut self) {
        self.sound = false;
    }

    /// From here on the session counts as lost (I5).
    pub(crate) fn deadline(&self, timings: &Timings) -> Moment {
        self.good + timings.deadline
    }

    /// When the next renewal is due.
    pub(crate) fn renewal_due(&self, timings: &Timings) -> Moment {
        self.tried + timings.renew
    }

    /// When a renewal that starts at `now` is given up.
    pub(crate) fn give_up_renewal(&self, now: Moment, timings: &Timings) -> Moment {
        (now + timings.attempt()).min(self.deadline(timings))
    }

    /// When any other statement that starts at `now` is given up. It leaves a whole attempt for the renewal where it
    /// can, and has a quarter of one for itself where it cannot.
    pub(crate) fn give_up(&self, now: Moment, timings: &Timings) -> Moment {
        let attempt = timings.attempt();
        let latest = (self.deadline(timings) - attempt).max(now + attempt / 4);
        (now + attempt).min(latest).min(self.deadline(timings))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const fn at(seconds: u64) -> Moment {
        Moment::after_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn trust_is_counted_from_the_start_of_the_attempt() {
        let timings = Timings::default();
        let mut session = Session::opened(SessionId::new(1), at(100));
        session.trying(at(102));
        assert_eq!(session.deadline(&timings), at(110));
        session.renewed(at(102));
        assert_eq!(session.deadline(&timings), at(112));
        assert_eq!(session.renewal_due(&timings), at(104));
    }

    #[test]
    fn no_attempt_goes_past_the_deadline() {
        let timings = Timings::default();
        let session = Session::opened(SessionId::new(1), at(100));
        assert_eq!(session.give_up_renewal(at(102), &timings), at(107));
        assert_eq!(session.give_up_renewal(at(107), &timings), at(110));
        assert_eq!(session.give_up(at(101), &timings), at(105));
        assert_eq!(session.give_up(at(108), &timings), at(108) + timings.attempt() / 4);
        assert_eq!(session.give_up(at(109), &timings), at(110));
    }
}
