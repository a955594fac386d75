//! Durations and ratios, summed up.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Values of one kind, kept to three digits.
#[derive(Debug)]
pub struct Samples(Histogram<u64>);

impl Default for Samples {
    fn default() -> Self {
        Self(Histogram::new(3).expect("three digits are allowed"))
    }
}

impl Samples {
    /// One more duration.
    ///
    /// # Panics
    ///
    /// When it is longer than five centuries.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).expect("a duration that somebody waited for");
        self.0.record(nanos).expect("the histogram grows");
    }

    /// One more ratio. In a set of its own: a ratio of 1 is kept like a second.
    pub fn record_ratio(&mut self, ratio: f64) {
        self.record(Duration::from_secs_f64(ratio));
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was recorded, in milliseconds.
    pub fn millis(&self) -> Summary {
        self.summary(1e3)
    }

    /// What was recorded, as ratios.
    pub fn ratios(&self) -> Summary {
        self.summary(1.0)
    }

    fn summary(&self, unit: f64) -> Summary {
        let of = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64() * unit;
        let at = |percent: u32| of(self.0.value_at_quantile(f64::from(percent) / 100.0));
        Summary {
            n: self.0.len(),
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: of(self.0.max()),
            curve: (0..=100).map(at).collect(),
        }
    }
}

/// Values of one kind, as they are printed and kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// How many.
    pub n: u64,
    /// The median.
    pub p50: f64,
    /// What nine of ten do not exceed.
    pub p90: f64,
    /// What 99 of 100 do not exceed.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// The percentiles 0 to 100.
    pub curve: Vec<f64>,
}

impl Summary {
    /// The head of a table of such summaries.
    pub const HEAD: &str = "n | p50 | p90 | p99 | max";
    /// The line below the head.
    pub const RULE: &str = "---: | ---: | ---: | ---: | ---:";
}

/// Cells of a table.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n, p50, p90, p99, max, .. } = self;
        write!(f, "{n} | {} | {} | {} | {}", short(*p50), short(*p90), short(*p99), short(*max))
    }
}

/// A number to three digits or to the whole.
pub fn short(value: f64) -> String {
    let digits = match value.abs() {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut samples = Samples::default();
        for millis in 1..=100 {
            samples.record(Duration::from_millis(millis));
        }
        let summary = samples.millis();
        assert_eq!(summary.n, 100);
        assert!((summary.p50 - 50.0).abs() < 0.1, "{summary:?}");
        assert!((summary.p99 - 99.0).abs() < 0.1, "{summary:?}");
        assert!((summary.max - 100.0).abs() < 0.2, "{summary:?}");
        assert_eq!(summary.curve.len(), 101);
    }

    #[test]
    fn a_ratio_stays_a_ratio() {
        let mut samples = Samples::default();
        samples.record_ratio(1.25);
        assert!((samples.ratios().p50 - 1.25).abs() < 0.001);
    }
}
