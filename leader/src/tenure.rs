//! One stretch of one replica running one work under one term.

use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::{SetOnce, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::clock::{Clock, Moment};
use crate::event::{Event, EventKind, Reporter, log};
use crate::keeper::Command;
use crate::name::{Namespace, WorkName};
use crate::protocol::{Ending, SessionId, Term};
use crate::race::{First, race};
use crate::tasks::Tasks;
use crate::timings::Timings;
use crate::work::BoxError;

/// The proof that this replica leads a work, handed to it as its first argument.
///
/// It is cheap to clone and says when it is over: [`ended`](Self::ended), [`until_ended`](Self::until_ended),
/// [`sleep`](Self::sleep) and [`check`](Self::check) are four ways of asking. [`begin`](Self::begin) opens a transaction
/// that commits only if nobody else has been elected since.
///
/// ```
/// use std::time::Duration;
/// use leader::{Ended, Tenure};
///
/// #[leader::work("heartbeat")]
/// async fn heartbeat(tenure: Tenure) -> Result<(), Ended> {
///     loop {
///         tenure.check()?;                               // right before a side effect
///         println!("term {} beats", tenure.term());
///         tenure.sleep(Duration::from_secs(1)).await?;   // the ending as an error, when it comes
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Tenure(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) name: WorkName,
    pub(crate) term: Term,
    pub(crate) session: SessionId,
    pub(crate) namespace: Namespace,
    pub(crate) trace_id: Arc<str>,
    pub(crate) trust: Arc<Trust>,
    ending: OnceLock<Ending>,
    /// When the lease was lost, which may come after another ending.
    lost: SetOnce<Moment>,
    /// Cancelled when the tenure ends.
    token: CancellationToken,
    /// Held while it is told, so that nothing of the tenure is told in between.
    loss_told: Mutex<bool>,
    end_told: OnceLock<EndTold>,
    /// Cancelled when the tenure ends or its work returns.
    tasks_end: CancellationToken,
    tasks: Tasks,
    keeper: mpsc::UnboundedSender<Command>,
    reporter: Arc<Reporter>,
}

/// How the end of a tenure is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndTold {
    SteppedDown,
    Overrun,
}

/// Until when a session may be trusted, for those who cannot wait for the keeper to say so.
#[derive(Debug)]
pub(crate) struct Trust {
    /// The start of the last good renewal, in nanoseconds of the clock.
    good: AtomicU64,
    clock: Clock,
    timings: Timings,
}

impl Trust {
    pub(crate) fn new(good: Moment, clock: Clock, timings: Timings) -> Self {
        let trust = Self { good: AtomicU64::new(0), clock, timings };
        trust.renewed(good);
        trust
    }

    pub(crate) fn renewed(&self, good: Moment) {
        let nanos = good.since(Moment::after_origin(Duration::ZERO)).as_nanos();
        self.good.fetch_max(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn good(&self) -> Moment {
        Moment::after_origin(Duration::from_nanos(self.good.load(Ordering::Relaxed)))
    }

    /// From here on the lease counts as lost.
    pub(crate) fn deadline(&self) -> Moment {
        self.good() + self.timings.deadline
    }

    /// From here on the process of a work that still runs is gone: `margin` before the lease can expire.
    fn last_exit(&self) -> Moment {
        self.expiry() - self.timings.margin
    }

    /// Until then nobody else is elected: the database counts the lease from when the renewal reached it.
    pub(crate) fn expiry(&self) -> Moment {
        self.good() + self.timings.lease
    }

    pub(crate) fn grace(&self) -> Duration {
        self.timings.grace
    }

    pub(crate) fn fence_idle(&self) -> Duration {
        self.timings.fence_idle()
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }
}

/// What a new tenure is made of.
pub(crate) struct Founding {
    pub(crate) name: WorkName,
    pub(crate) term: Term,
    pub(crate) session: SessionId,
    pub(crate) namespace: Namespace,
    pub(crate) trace_id: Arc<str>,
    pub(crate) trust: Arc<Trust>,
    pub(crate) keeper: mpsc::UnboundedSender<Command>,
    pub(crate) reporter: Arc<Reporter>,
}

impl Tenure {
    pub(crate) fn new(founding: Founding) -> Self {
        let Founding { name, term, session, namespace, trace_id, trust, keeper, reporter } = founding;
        let token = CancellationToken::new();
        Self(Arc::new(Shared {
            name,
            term,
            session,
            namespace,
            trace_id,
            trust,
            ending: OnceLock::new(),
            lost: SetOnce::new(),
            loss_told: Mutex::new(false),
            end_told: OnceLock::new(),
            tasks_end: token.child_token(),
            token,
            tasks: Tasks::new(),
            keeper,
            reporter,
        }))
    }

    /// The name of the work.
    pub fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// The fencing token. Hand it to systems that can refuse a smaller one than they have seen.
    pub fn term(&self) -> Term {
        self.0.term
    }

    /// 32 hexadecimal digits that every log line of this tenure carries.
    pub fn trace_id(&self) -> &str {
        &self.0.trace_id
    }

    /// The replica, for people.
    pub fn instance(&self) -> &str {
        &self.0.reporter.instance
    }

    /// Waits until the tenure is over, and says why. Returns at once if it is over already.
    ///
    /// Cancel safe.
    pub async fn ended(&self) -> Ending {
        self.0.token.cancelled().await;
        self.ending().unwrap_or(Ending::LeaseLost)
    }

    /// Why the tenure is over, if it is.
    ///
    /// What it does not see is a lease that ran out a moment ago, while the process was frozen: [`check`](Self::check)
    /// does.
    pub fn ending(&self) -> Option<Ending> {
        self.0.ending.get().copied()
    }

    /// Asks right before a side effect. It also looks at the clock, and so fails in a process that has just woken up
    /// after its lease ran out, before anybody could tell it.
    ///
    /// # Errors
    ///
    /// [`Ended`], once the tenure is over.
    pub fn check(&self) -> Result<(), Ended> {
        if self.ending().is_none() {
            let now = self.0.trust.now();
            if now < self.0.trust.deadline() {
                return Ok(());
            }
            self.lose(now);
            // The keeper may not have had a turn since.
            let _ = self.0.keeper.send(Command::Overdue);
        }
        Err(Ended(self.ending().unwrap_or(Ending::LeaseLost)))
    }

    /// Runs a future until it is done or the tenure is over, whichever comes first. The future is dropped in the second
    /// case, so it must be cancel safe. Once the tenure is over, it is not polled at all.
    ///
    /// # Errors
    ///
    /// [`Ended`], when the tenure is over first.
    pub fn until_ended<F: Future>(&self, future: F) -> impl Future<Output = Result<F::Output, Ended>> {
        // No `async fn`, which would hold the future twice.
        race(self.ended(), future).map(|first| match first {
            First::One(ending) => Err(Ended(ending)),
            First::Other(output) => Ok(output),
        })
    }

    /// Sleeps this long, or until the tenure is over.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Ended`], when the tenure is over first.
    pub async fn sleep(&self, duration: Duration) -> Result<(), Ended> {
        self.until_ended(tokio::time::sleep(duration)).await
    }

    /// A token that is cancelled when the tenure is over, for libraries that take one. Cancelling it has no effect on
    /// the tenure.
    pub fn token(&self) -> CancellationToken {
        self.0.token.child_token()
    }

    /// Spawns a task that belongs to the tenure: its future is dropped when the tenure is over or the work returns, and
    /// until it is gone it counts as the work still running. A task that panics is logged, and its handle says so.
    ///
    /// The handle gives what the future returns, or [`Ended`] if it was dropped before. That says [`Ending::SteppedDown`] where the
    /// work returned first.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<Result<F::Output, Ended>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let end = self.0.tasks_end.clone();
        let tenure = self.clone();
        let task = async move {
            match race(end.cancelled(), crate::panic::Guarded::new(future)).await {
                First::Other(Ok(output)) => Ok(output),
                First::Other(Err(panic)) => {
                    tracing::error!(%panic, "a task of the work panicked");
                    std::panic::resume_unwind(panic.payload)
                }
                First::One(()) => Err(Ended(tenure.ending().unwrap_or(Ending::SteppedDown))),
            }
        };
        let task = task.instrument(tracing::Span::current());
        tokio::spawn(self.0.tasks.count(task))
    }

    /// The work has returned: ends its tasks and waits until they are gone.
    pub(crate) async fn end_tasks(&self) {
        self.0.tasks_end.cancel();
        self.0.tasks.gone().await;
    }

    /// Tells the work that its tenure is over. The first ending stays.
    pub(crate) fn end(&self, ending: Ending) {
        let _ = self.0.ending.set(ending);
        self.0.token.cancel();
    }

    /// Tells the work that its lease is lost, and everybody else. This can come after another ending, and then starts
    /// the grace all the same.
    pub(crate) fn lose(&self, now: Moment) {
        if self.mark_lost(now) {
            self.tell_loss();
        }
    }

    /// Tells the work alone, which cannot block: logs and hooks can. Whether that is news, to be followed by
    /// [`tell_loss`](Self::tell_loss).
    #[must_use]
    pub(crate) fn mark_lost(&self, now: Moment) -> bool {
        let news = self.0.lost.set(now).is_ok();
        if news {
            let _ = self.0.ending.set(Ending::LeaseLost);
            self.0.token.cancel();
        }
        news
    }

    /// Leave to tell that the process ends for the work, for whoever asks first: work may go at that very moment, and only
    /// one of the two is told.
    #[must_use]
    pub(crate) fn may_tell_overrun(&self) -> bool {
        self.0.end_told.set(EndTold::Overrun).is_ok()
    }

    /// Leave to tell that the work is gone. What was lost before is told before, and what is lost later is no news.
    #[must_use]
    pub(crate) fn may_tell_end(&self) -> bool {
        let mut told = self.0.loss_told.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell_loss_once(&mut told);
        self.0.end_told.set(EndTold::SteppedDown).is_ok()
    }

    /// Tells the log and the application of a loss, if it was marked, once. Returns when it has been told.
    pub(crate) fn tell_loss(&self) {
        let mut told = self.0.loss_told.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell_loss_once(&mut told);
    }

    fn tell_loss_once(&self, told: &mut bool) {
        let gone = self.0.end_told.get() == Some(&EndTold::SteppedDown);
        if !self.is_lost() || gone || std::mem::replace(told, true) {
            return;
        }
        log(|| {
            tracing::warn!(
                name = self.name(), term = %self.term(), trace_id = self.trace_id(),
                "lease lost, the work is told to end"
            );
        });
        let before = self.ending().filter(|ending| *ending != Ending::LeaseLost);
        self.0.reporter.report(&Event {
            reason: before.map(|_| "while winding down".to_owned()),
            ..self.event(EventKind::Lost)
        });
    }

    /// Resolves when the lease has been lost for so long that an answer of the database is not worth waiting for: the work
    /// has to return before the process ends for it.
    pub(crate) async fn lost_for_long(&self) -> Ended {
        self.0.lost.wait().await;
        let trust = &self.0.trust;
        let left = self.exit_at().since(trust.now());
        tokio::time::sleep((trust.timings.grace / 4).min(left / 2)).await;
        Ended(Ending::LeaseLost)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0.lost.get().is_some()
    }

    /// The same, also if nobody has noticed yet.
    pub(crate) fn is_lost_by_now(&self) -> bool {
        let now = self.0.trust.now();
        if now >= self.0.trust.deadline() {
            self.lose(now);
        }
        self.is_lost()
    }

    /// When the process ends if the work still runs: soon after the loss, and in any case before the lease can expire.
    pub(crate) fn exit_at(&self) -> Moment {
        let trust = &self.0.trust;
        let deadline = trust.deadline();
        let loss = self.0.lost.get().map_or(deadline, |lost| deadline.min(*lost));
        (loss + trust.timings.grace).min(trust.last_exit())
    }

    pub(crate) fn event(&self, kind: EventKind) -> Event {
        Event {
            kind,
            name: Some(self.0.name.clone()),
            term: Some(self.0.term),
            instance: Arc::clone(&self.0.reporter.instance),
            trace_id: Some(Arc::clone(&self.0.trace_id)),
            reason: None,
            error: None,
        }
    }

    /// Asks the elector's database whether this tenure goes on: a renewal that begins after now must confirm it.
    pub(crate) async fn confirm(&self) -> Result<(), Ended> {
        self.check()?;
        let (reply, confirmed) = oneshot::channel();
        let _ = self.0.keeper.send(Command::Confirm { reply });
        // A reply that was dropped is an answer too: the session was lost, of which the tenure has heard by now, or it is a
        // tenure of a test, without a keeper.
        let _ = self.until_ended(confirmed).await?;
        self.check()
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure")
            .field("name", &self.0.name)
            .field("term", &self.0.term)
            .field("trace_id", &self.0.trace_id)
            .field("ending", &self.ending())
            .finish()
    }
}

impl Ending {
    /// An error of the work's own that came with the ending: it is logged as an error, where the ending alone is not.
    pub fn with(self, error: impl Into<BoxError>) -> Failed {
        Failed { ending: self, error: error.into() }
    }
}

/// The error of everything that a tenure refuses once it is over.
///
/// A work that returns it, wrapped however deep, has ended as it should. The outcome is judged by type, down the chain
/// of [`source`](StdError::source)s, so wrap it with something that keeps the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended(pub(crate) Ending);

impl Ended {
    /// Why the tenure is over.
    pub fn ending(&self) -> Ending {
        self.0
    }

    /// See [`Ending::with`].
    pub fn with(self, error: impl Into<BoxError>) -> Failed {
        self.0.with(error)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tenure is over")
    }
}

impl StdError for Ended {
    /// The [`Ending`], always: libraries that wrap an error may hide its own type, but not that of its source.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// An error of the work's own that came with the ending.
#[derive(Debug)]
pub struct Failed {
    ending: Ending,
    error: BoxError,
}

impl Failed {
    /// Why the tenure was over.
    pub fn ending(&self) -> Ending {
        self.ending
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed while ending ({})", self.ending)
    }
}

impl StdError for Failed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.error)
    }
}

/// Whether an error's chain is nothing but an ending, wrapped however deep.
pub(crate) fn is_ending(error: &(dyn StdError + 'static)) -> bool {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.is::<Ending>()
}
