//! The durations of the protocol.

use std::time::Duration;

/// How long a lease lasts, how often it is renewed, and how soon everything ends when it is not.
///
/// Every field can be set. [`Builder::start`](crate::Builder::start) refuses combinations that cannot keep the promise,
/// naming the rule that is broken.
///
/// ```
/// use std::time::Duration;
/// use leader::Timings;
///
/// let timings = Timings { lease: Duration::from_secs(30), deadline: Duration::from_secs(20), ..Timings::default() };
/// assert!(timings.validate().is_ok());
/// assert!(Timings { renew: Duration::from_secs(9), ..Timings::default() }.validate().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long a renewal keeps a session alive, by the database's clock. 15 s.
    pub lease: Duration,
    /// From the start of one renewal attempt to the start of the next, failed ones included. 2 s.
    pub renew: Duration,
    /// A replica gives its session up this long after the start of the last renewal that succeeded. 10 s.
    pub deadline: Duration,
    /// The longest one attempt may take; never past the deadline. `None`, the default, is half the deadline.
    pub attempt: Option<Duration>,
    /// How long work may run on after its lease was lost. 5 s.
    pub grace: Duration,
    /// The process of work that ignores its loss is gone this long before the lease can expire. 0.5 s.
    pub margin: Duration,
    /// How long a replica waits after its own tenure ended before it campaigns for that name again, and the longest a
    /// standby waits between two looks. 5 s, to which up to a fifth is added by chance.
    pub campaign: Duration,
    /// The longest the statement that gives a name back may take. 5 s.
    pub release: Duration,
    /// How often a standby looks for names that were given back where nothing wakes it: on MySQL and MariaDB. 250 ms.
    pub look: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(2),
            deadline: Duration::from_secs(10),
            attempt: None,
            grace: Duration::from_secs(5),
            margin: Duration::from_millis(500),
            campaign: Duration::from_secs(5),
            release: Duration::from_secs(5),
            look: Duration::from_millis(250),
        }
    }
}

impl Timings {
    /// Checks the rules between the durations.
    ///
    /// # Errors
    ///
    /// [`TimingsError`] names the first rule that is broken, with the values that break it.
    pub fn validate(&self) -> Result<(), TimingsError> {
        /// Far below where sums of milliseconds overflow 64 bits.
        const LONGEST: Duration = Duration::from_hours(24);

        for (name, value) in [
            ("lease", self.lease),
            ("renew", self.renew),
            ("deadline", self.deadline),
            ("attempt", self.attempt()),
            ("grace", self.grace),
            ("margin", self.margin),
            ("campaign", self.campaign),
            ("release", self.release),
            ("look", self.look),
        ] {
            if value < Duration::from_millis(1) {
                return Err(TimingsError(format!("`{name}` is {value:?}; give it at least 1ms")));
            }
            if value > LONGEST {
                return Err(TimingsError(format!("`{name}` is {value:?}; give it at most a day")));
            }
        }
        if self.renew + self.attempt() > self.deadline {
            return Err(TimingsError(format!(
                "`renew + attempt <= deadline` is broken: {:?} + {:?} > {:?}; a renewal that fails once must leave time for another",
                self.renew,
                self.attempt(),
                self.deadline
            )));
        }
        if self.deadline + self.margin >= self.lease {
            return Err(TimingsError(format!(
                "`deadline + margin < lease` is broken: {:?} + {:?} >= {:?}; a replica must give up before its lease expires",
                self.deadline, self.margin, self.lease
            )));
        }
        Ok(())
    }

    /// The longest one attempt may take.
    pub fn attempt(&self) -> Duration {
        self.attempt.unwrap_or(self.deadline / 2)
    }

    /// After which a server ends a fenced transaction that sits idle (I8): no longer than the lease, and at least a second.
    pub(crate) fn fence_idle(&self) -> Duration {
        const LONGEST: Duration = Duration::from_secs(10);
        /// The databases count in seconds.
        const SHORTEST: Duration = Duration::from_secs(1);

        LONGEST.min(self.lease).max(SHORTEST)
    }

    /// Failures of a statement that are further apart have nothing to do with one another: it was not needed in between.
    pub(crate) fn series(&self) -> Duration {
        self.campaign * 2 + self.attempt()
    }

    /// The part added by chance to `campaign`, so that replicas do not fall in step.
    pub(crate) fn campaign_jitter(&self) -> Duration {
        self.campaign / 5
    }

    /// The part added by chance to an expiry that a standby waits for.
    pub(crate) fn expiry_jitter(&self) -> Duration {
        (self.lease / 20).min(Duration::from_millis(250))
    }
}

/// Durations that cannot keep the promise together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("inconsistent timings: {0}")]
pub struct TimingsError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_named_when_it_is_broken() {
        let defaults = Timings::default();
        assert_eq!(defaults.validate(), Ok(()));
        let second = Duration::from_secs(1);
        for (broken, rule) in [
            (Timings { attempt: Some(9 * second), ..defaults }, "`renew + attempt <= deadline`"),
            (Timings { grace: Duration::ZERO, ..defaults }, "`grace`"),
            (Timings { lease: Duration::MAX, ..defaults }, "`lease`"),
            (Timings { renew: 6 * second, ..defaults }, "`renew + attempt <= deadline`"),
            (Timings { deadline: 14 * second + second / 2, ..defaults }, "`deadline + margin < lease`"),
            (Timings { margin: 5 * second, ..defaults }, "`deadline + margin < lease`"),
        ] {
            let error = broken.validate().expect_err(rule).to_string();
            assert!(error.contains(rule), "{error}");
        }
    }
}
