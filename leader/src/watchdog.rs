//! The end of the process, on time.
//!
//! Work that will not stop once its lease is lost must not run on beside its successor. Nobody can stop a future that
//! does not yield, so its process ends: at the grace after the loss, and in any case `margin` before the lease can
//! expire. The watchdog has a thread of its own and computes both moments from what it can see without the keeper, so
//! that it works when every runtime of the process hangs.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, Moment, TICK};
use crate::event::{Event, EventKind, Reporter};
use crate::exit;
use crate::name::WorkName;
use crate::protocol::{Ending, Term};
use crate::tenure::Tenure;

/// The exit status of a process that ends because a work ignored the loss of its lease.
pub const EXIT_STATUS: i32 = 70;

/// A work that still runs although its time after the loss of its lease is over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Overrun {
    /// The name of the work.
    pub name: WorkName,
    /// The term of its tenure.
    pub term: Term,
    /// The trace id of its tenure.
    pub trace_id: Arc<str>,
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the work `{}` still runs although the lease of its term {} is lost and its grace is over",
            self.name, self.term
        )
    }
}

pub(crate) type Hook = dyn Fn(&Overrun) + Send + Sync;

/// Watches every running tenure.
#[derive(Clone)]
pub(crate) struct Watchdog(Arc<Inner>);

struct Inner {
    clock: Clock,
    margin: Duration,
    reporter: Arc<Reporter>,
    /// Replaces the exit.
    hook: Option<Box<Hook>>,
    state: Mutex<State>,
    bell: Condvar,
    async_bell: tokio::sync::Notify,
}

struct State {
    watched: HashMap<u64, Entry>,
    next: u64,
    /// When it looks again, if nobody rings.
    until: Moment,
    /// Rung since the last look.
    rung: bool,
}

struct Entry {
    tenure: Tenure,
    reported: bool,
    /// The process was frozen from before its exit until the lease could expire, and may go on until then.
    spared_until: Option<Moment>,
}

impl Entry {
    fn exit_at(&self) -> Moment {
        let exit = self.tenure.exit_at();
        self.spared_until.map_or(exit, |until| until.max(exit))
    }

    /// When there is something to do about it.
    fn soonest(&self) -> Moment {
        let exit = self.exit_at();
        if self.tenure.is_lost() { exit } else { exit.min(self.tenure.0.trust.deadline()) }
    }
}

impl Watchdog {
    pub(crate) fn new(
        clock: Clock,
        margin: Duration,
        reporter: Arc<Reporter>,
        hook: Option<Box<Hook>>,
    ) -> Self {
        Self(Arc::new(Inner {
            clock,
            margin,
            reporter,
            hook,
            state: Mutex::new(State {
                watched: HashMap::new(),
                next: 0,
                until: Moment::after_origin(Duration::ZERO),
                rung: false,
            }),
            bell: Condvar::new(),
            async_bell: tokio::sync::Notify::new(),
        }))
    }

    /// Watches a tenure until the guard is dropped, which must be when its work is gone.
    pub(crate) fn watch(&self, tenure: Tenure) -> Watched {
        let entry = Entry { tenure, reported: false, spared_until: None };
        let mut state = self.0.lock();
        let key = state.next;
        state.next += 1;
        // A look goes through all of them: ten thousand that begin at once do not ask for one each.
        let early = entry.soonest() < state.until;
        state.watched.insert(key, entry);
        drop(state);
        if early {
            self.ring();
        }
        Watched { watchdog: Arc::clone(&self.0), key }
    }

    /// Something changed that moves an exit forward.
    pub(crate) fn ring(&self) {
        self.0.lock().rung = true;
        self.0.bell.notify_all();
        self.0.async_bell.notify_one();
    }

    /// Starts the thread. It ends with the last watchdog and the last watched tenure.
    pub(crate) fn spawn_thread(&self) -> std::io::Result<()> {
        let inner = Arc::downgrade(&self.0);
        thread::Builder::new()
            .name("leader-watchdog".to_owned())
            .spawn(move || Inner::guard(&inner))
            .map(drop)
    }

    /// The same as a task, for a clock that tests move.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) async fn run(self) {
        loop {
            let now = self.0.clock.now();
            let until = self.0.look(now, |lost| tell(&lost));
            crate::race::race(self.0.clock.sleep_until(until), self.0.async_bell.notified()).await;
        }
    }
}

impl Inner {
    fn guard(inner: &Weak<Self>) {
        loop {
            let Some(this) = inner.upgrade() else { return };
            let begun = this.clock.now();
            let pause = this.look(begun, tell_apart).since(begun);
            let mut state = this.lock();
            if !std::mem::take(&mut state.rung) {
                let waited = this.bell.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
                state = waited.0;
                state.rung = false;
            }
            drop(state);
            let woken = this.clock.now();
            if woken.since(begun) > pause + this.margin {
                this.thaw(begun, woken);
            }
        }
    }

    /// Nobody ran in between. Where the lease could expire meanwhile, an exit now comes too late to undo anything: fences
    /// have been refusing since the successor was elected, and what is left is to tell the work and see whether it obeys.
    /// That moment comes once, so that a process which is frozen again and again ends all the same.
    fn thaw(&self, frozen: Moment, woken: Moment) {
        for entry in self.lock().watched.values_mut() {
            if frozen < entry.tenure.exit_at() && entry.tenure.0.trust.expiry() <= woken {
                entry.spared_until = Some(woken + self.margin);
            }
        }
    }

    /// Tells those whose lease has run out, ends the process for those that should be gone, and says when to look
    /// again.
    fn look(&self, now: Moment, tell: impl FnOnce(Vec<Tenure>)) -> Moment {
        let mut until = now + TICK;
        let mut lost = Vec::new();
        let mut overrun = Vec::new();
        let mut state = self.lock();
        for entry in state.watched.values_mut() {
            let tenure = &entry.tenure;
            if !tenure.is_lost() && now >= tenure.0.trust.deadline() {
                lost.push(tenure.clone());
            }
            if now >= entry.exit_at() && !entry.reported {
                entry.reported = true;
                // Where a hook replaces the exit, the work steps down in the end all the same.
                if self.hook.is_some() || tenure.may_tell_overrun() {
                    overrun.push(tenure.clone());
                }
            }
            if !entry.reported {
                until = until.min(entry.soonest());
            }
        }
        state.until = until;
        drop(state);
        lost.retain(|tenure| tenure.mark_lost(now));
        if !lost.is_empty() {
            tell(lost);
        }
        if !overrun.is_empty() {
            self.overrun(overrun);
        }
        until
    }

    fn overrun(&self, tenures: Vec<Tenure>) {
        if let Some(hook) = &self.hook {
            for tenure in &tenures {
                let overrun = self.reporter.overrun(tenure, "");
                if catch_unwind(AssertUnwindSafe(|| hook(&overrun))).is_err() {
                    tracing::error!("the function given to `on_overrun` panicked");
                }
            }
            return;
        }
        // Who was woken just before a lease can expire has less time. Where it has expired, nothing depends on that any more.
        let now = self.clock.now();
        let expiries = tenures.iter().map(|tenure| tenure.0.trust.expiry()).filter(|expiry| *expiry > now);
        let left = expiries.min().map_or(exit::LAST_WORDS, |expiry| expiry.since(now));
        let reporter = Arc::clone(&self.reporter);
        let last_words = move || {
            for tenure in &tenures {
                reporter.overrun(tenure, &format!("; the process ends with status {EXIT_STATUS}"));
            }
        };
        exit::say(last_words, exit::LAST_WORDS.min(self.margin / 2).min(left));
        exit::at_once(EXIT_STATUS);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(lost: &[Tenure]) {
    for tenure in lost {
        tenure.tell_loss();
    }
}

/// Logs and hooks can block, and the exit must not wait for them.
fn tell_apart(lost: Vec<Tenure>) {
    let _ = thread::Builder::new().name("leader-loss".to_owned()).spawn(move || tell(&lost));
}

impl Overrun {
    fn of(tenure: &Tenure) -> Self {
        Self { name: tenure.0.name.clone(), term: tenure.term(), trace_id: Arc::clone(&tenure.0.trace_id) }
    }
}

impl Reporter {
    /// Logs and reports that a work ignores its loss, and what comes of that.
    fn overrun(&self, tenure: &Tenure, what_comes: &str) -> Overrun {
        let overrun = Overrun::of(tenure);
        tracing::error!(
            name = %overrun.name, term = %overrun.term, trace_id = %overrun.trace_id,
            "{overrun}{what_comes}"
        );
        self.report(&Event {
            reason: Some(Ending::LeaseLost.to_string()),
            error: Some(overrun.to_string()),
            ..tenure.event(EventKind::Overrun)
        });
        overrun
    }
}

/// The work of a watched tenure still runs as long as this lives.
pub(crate) struct Watched {
    /// Strong: the watchdog outlives a keeper that panicked.
    watchdog: Arc<Inner>,
    key: u64,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watchdog.lock().watched.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::name::{Namespace, WorkName};
    use crate::protocol::SessionId;
    use crate::tenure::{Founding, Trust};
    use crate::timings::Timings;

    fn at(millis: u64) -> Moment {
        Moment::after_origin(Duration::from_millis(millis))
    }

    /// A watchdog with the default timings and a hook, and a tenure whose last good renewal was at the origin: it is lost at
    /// 10 s, and the process ends at 14.5 s.
    fn watching() -> (Watchdog, Watched, mpsc::Receiver<Overrun>) {
        let (watchdog, tenure, overruns) = unwatched();
        let watched = watchdog.watch(tenure);
        (watchdog, watched, overruns)
    }

    fn unwatched() -> (Watchdog, Tenure, mpsc::Receiver<Overrun>) {
        let (say, overruns) = mpsc::channel();
        let clock = Clock::injected(|| unreachable!("the tests say what time it is"));
        let timings = Timings::default();
        let namespace = Namespace::new("test").expect("a namespace");
        let reporter = Arc::new(Reporter::new("test".into(), namespace.clone(), None));
        let hook = move |overrun: &Overrun| say.send(overrun.clone()).expect("the test listens");
        let watchdog =
            Watchdog::new(clock.clone(), timings.margin, Arc::clone(&reporter), Some(Box::new(hook)));
        let tenure = Tenure::new(Founding {
            name: WorkName::new("stubborn").expect("a name"),
            term: Term::new(1),
            session: SessionId::new(1),
            namespace,
            trace_id: "0".into(),
            trust: Arc::new(Trust::new(at(0), clock, timings)),
            keeper: tokio::sync::mpsc::unbounded_channel().0,
            reporter,
        });
        (watchdog, tenure, overruns)
    }

    fn exits_at(watchdog: &Watchdog, overruns: &mpsc::Receiver<Overrun>, now: Moment) -> bool {
        watchdog.0.look(now, |lost| tell(&lost));
        overruns.try_recv().is_ok()
    }

    #[test]
    fn only_what_is_due_before_the_next_look_asks_for_one() {
        for (last_look, rings) in [(at(0), false), (at(9_700), false), (at(9_800), true), (at(11_000), true)]
        {
            let (watchdog, tenure, _overruns) = unwatched();
            watchdog.0.look(last_look, |lost| tell(&lost));
            let _watched = watchdog.watch(tenure);
            assert_eq!(watchdog.0.lock().rung, rings, "{last_look:?}");
        }
    }

    #[test]
    fn the_process_ends_at_its_moment() {
        let (watchdog, _watched, overruns) = watching();
        assert!(!exits_at(&watchdog, &overruns, at(14_499)));
        assert!(exits_at(&watchdog, &overruns, at(14_500)));
    }

    #[test]
    fn a_freeze_that_ends_before_the_lease_can_expire_moves_nothing() {
        for woken in [14_450, 14_500, 14_999] {
            let (watchdog, _watched, overruns) = watching();
            watchdog.0.thaw(at(13_600), at(woken));
            assert!(exits_at(&watchdog, &overruns, at(woken.max(14_500))), "woken at {woken} ms");
        }
    }

    #[test]
    fn a_freeze_over_exit_and_expiry_leaves_the_margin_once() {
        let (watchdog, _watched, overruns) = watching();
        watchdog.0.thaw(at(14_000), at(15_000));
        assert!(!exits_at(&watchdog, &overruns, at(15_000)));

        let (watchdog, _watched, overruns) = watching();
        watchdog.0.thaw(at(14_000), at(20_000));
        assert!(!exits_at(&watchdog, &overruns, at(20_000)));
        watchdog.0.thaw(at(20_300), at(20_450));
        assert!(!exits_at(&watchdog, &overruns, at(20_499)));
        assert!(exits_at(&watchdog, &overruns, at(20_500)));
    }

    #[test]
    fn a_second_freeze_leaves_nothing() {
        let (watchdog, _watched, overruns) = watching();
        watchdog.0.thaw(at(14_000), at(20_000));
        watchdog.0.thaw(at(20_300), at(21_500));
        assert!(exits_at(&watchdog, &overruns, at(21_500)));
    }
}
