//! Time as the protocol sees it: a clock that goes on while the machine is suspended, and that tests can replace.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::Duration;

/// A moment on one [`Clock`]. Moments of different clocks have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// A moment this long after the clock's origin.
    pub const fn after_origin(duration: Duration) -> Self {
        Self(duration)
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Where moments come from.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    Machine,
    Injected(Arc<dyn Fn() -> Moment + Send + Sync>),
}

/// The longest that a wake-up from suspend goes unnoticed.
pub(crate) const TICK: Duration = Duration::from_millis(250);

impl Clock {
    /// The machine's clock since boot, suspend included.
    pub(crate) fn machine() -> Self {
        Self(Source::Machine)
    }

    /// A clock that tests move.
    #[cfg(any(test, feature = "test-util"))]
    pub fn injected(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Source::Injected(Arc::new(now)))
    }

    /// tokio's clock, which stands still under `start_paused` until nothing is left to do.
    #[cfg(any(test, feature = "test-util"))]
    pub fn tokio() -> Self {
        let origin = tokio::time::Instant::now();
        Self::injected(move || Moment(origin.elapsed()))
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        match &self.0 {
            Source::Machine => since_boot(),
            Source::Injected(now) => now(),
        }
    }

    /// Sleeps until `moment`. The machine's timers stop during suspend and this clock does not, so it looks again
    /// every now and then.
    ///
    /// Cancel safe.
    pub(crate) async fn sleep_until(&self, moment: Moment) {
        loop {
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(TICK)).await;
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Machine => "Clock::Machine",
            Source::Injected(_) => "Clock::Injected",
        })
    }
}

#[cfg(unix)]
fn since_boot() -> Moment {
    use nix::time::ClockId;

    // `Instant` is CLOCK_MONOTONIC on Linux and CLOCK_UPTIME_RAW on macOS; both stop in suspend.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const ID: ClockId = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const ID: ClockId = ClockId::CLOCK_MONOTONIC;

    let time = ID.now().expect("a clock that every system of this kind has");
    // Neither field of a clock that counts from boot is negative.
    let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec()).unwrap_or_default();
    Moment(Duration::new(seconds, nanoseconds))
}

#[cfg(not(unix))]
fn since_boot() -> Moment {
    use std::sync::OnceLock;
    use std::time::Instant;

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    Moment(ORIGIN.get_or_init(Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_clock_moves_forward() {
        let clock = Clock::machine();
        let before = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now().since(before) >= Duration::from_millis(2));
        assert_eq!(before.since(clock.now()), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_notices_a_clock_that_jumped() {
        use std::sync::atomic::{AtomicU64, Ordering};

        let jumped = Arc::new(AtomicU64::new(0));
        let tokio_clock = Clock::tokio();
        let clock = Clock::injected({
            let jumped = Arc::clone(&jumped);
            move || tokio_clock.now() + Duration::from_secs(jumped.load(Ordering::Relaxed))
        });
        let begun = tokio::time::Instant::now();
        let deadline = clock.now() + Duration::from_hours(1);
        let sleeper = tokio::spawn(async move { clock.sleep_until(deadline).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        jumped.store(3600, Ordering::Relaxed);
        sleeper.await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
}
