//! One tenure from claim to release: its task, its panic, its outcome.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::event::{Event, EventKind, Reporter, log};
use crate::keeper::Command;
use crate::protocol::Ending;
use crate::race::{First, race};
use crate::registry::Enlisted;
use crate::state::States;
use crate::tenure::{Tenure, is_ending};
use crate::watchdog::Watched;
use crate::work::{BoxError, OnEnd};

/// What a tenure needs to run.
pub(crate) struct Launch {
    pub(crate) tenure: Tenure,
    pub(crate) span: tracing::Span,
    pub(crate) work: Enlisted,
    pub(crate) states: Arc<States>,
    pub(crate) watched: Watched,
    pub(crate) keeper: mpsc::UnboundedSender<Command>,
    pub(crate) reporter: Arc<Reporter>,
}

/// As long as one of these lives, the work is not gone. The last one tells the keeper (I4).
struct Presence {
    tenure: Tenure,
    keeper: mpsc::UnboundedSender<Command>,
    reporter: Arc<Reporter>,
    span: tracing::Span,
    /// Whether the end of the tenure was told.
    told: AtomicBool,
    _watched: Watched,
}

impl Presence {
    /// Logs what the work returned, before its tasks are waited for.
    fn judge(&self, ending: Option<Ending>, outcome: &Outcome) -> Event {
        // What was lost is told before what came of it. This may run while the keeper is unwinding, or in a drop.
        self.tenure.tell_loss();
        log(|| self.span.in_scope(|| record(ending, outcome)));
        event(&self.tenure, ending, outcome)
    }

    /// Tells that the work is gone.
    fn tell(&self, event: &Event) {
        self.told.store(true, Ordering::Relaxed);
        if self.tenure.may_tell_end() {
            self.reporter.report(event);
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if !self.told.load(Ordering::Relaxed) {
            // Whoever should have told was dropped, which only the end of a runtime does. Nothing can run there any more.
            self.tell(&self.judge(self.tenure.ending(), &Outcome::Dropped));
            let _ = self.keeper.send(Command::ShutDown);
        }
        // Clones of the tenure may live on; they must not look like a live one.
        self.tenure.end(Ending::SteppedDown);
        let _ =
            self.keeper.send(Command::Ended { name: self.tenure.0.name.clone(), term: self.tenure.term() });
    }
}

/// Runs the work of a tenure on the application's runtime.
pub(crate) fn launch(launch: Launch, runtime: &Handle) {
    let Launch { tenure, span, work, states, watched, keeper, reporter } = launch;
    install_panic_hook();
    let presence = Arc::new(Presence {
        tenure: tenure.clone(),
        keeper,
        reporter,
        span: span.clone(),
        told: AtomicBool::new(false),
        _watched: watched,
    });
    // A task of its own: a panic that nothing else catches ends there, and its handle says so.
    let task = runtime.spawn({
        let presence = Arc::clone(&presence);
        let tenure = tenure.clone();
        async move {
            // Declared first and so dropped last, when the future of the work is gone.
            let _presence = presence;
            run(work, tenure, states).await
        }
        .instrument(span.clone())
    });
    let patience = tenure.0.trust.grace();
    let supervise = async move {
        let outcome = match task.await {
            Ok(outcome) => outcome,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => Outcome::Panicked(Panic::new(payload)),
                Err(_) => Outcome::Dropped,
            },
        };
        // It may have heard before anybody else that the lease is lost: from the database, after a freeze.
        let ending = tenure.check().err().map(|ended| ended.ending());
        let event = presence.judge(ending, &outcome);
        if tokio::time::timeout(patience, tenure.end_tasks()).await.is_err() {
            tracing::warn!(
                "the work is over and tasks that it spawned on its tenure still run; the name is kept until they end"
            );
            tenure.end_tasks().await;
        }
        presence.tell(&event);
    };
    runtime.spawn(supervise.instrument(span));
}

async fn run(work: Enlisted, tenure: Tenure, states: Arc<States>) -> Outcome {
    let started = {
        let tenure = tenure.clone();
        async move { work.start.call(tenure, &states).0.await }
    };
    let mut guarded = Guarded::new(started);
    let done = match work.on_end {
        OnEnd::Return => guarded.await,
        OnEnd::Drop => match race(tenure.ended(), &mut guarded).await {
            First::One(_) => guarded.discard().map(Ok),
            First::Other(done) => done,
        },
    };
    match done {
        Ok(returned) => Outcome::Returned(returned),
        Err(panic) => Outcome::Panicked(panic),
    }
}

enum Outcome {
    Returned(Result<(), BoxError>),
    Panicked(Panic),
    /// The runtime was shut down under it.
    Dropped,
}

impl Outcome {
    /// What went wrong. A work that returns nothing but its ending has done what it should.
    fn error(&self, ending: Option<Ending>) -> Option<String> {
        match self {
            Self::Returned(Ok(())) => None,
            Self::Returned(Err(error)) if ending.is_some() && is_ending(&**error) => None,
            Self::Returned(Err(error)) => Some(chain(&**error)),
            Self::Panicked(panic) => Some(panic.to_string()),
            Self::Dropped => Some("the runtime was shut down before the work returned".to_owned()),
        }
    }

    fn reason(&self, ending: Option<Ending>) -> String {
        let alone = if matches!(self, Self::Dropped) { "runtime shut down" } else { "work returned" };
        ending.map_or_else(|| alone.to_owned(), |ending| ending.to_string())
    }
}

/// Logs the end of a tenure.
fn record(ending: Option<Ending>, outcome: &Outcome) {
    let reason = outcome.reason(ending);
    match (outcome, outcome.error(ending)) {
        (_, None) => tracing::info!(reason, "stepped down"),
        (Outcome::Panicked(panic), Some(_)) => {
            let backtrace = panic.site.as_ref().map(|site| tracing::field::display(&site.backtrace));
            tracing::error!(reason, error = %panic, backtrace, "stepped down after a panic");
        }
        (_, Some(error)) => tracing::error!(reason, error, "stepped down with an error"),
    }
}

fn event(tenure: &Tenure, ending: Option<Ending>, outcome: &Outcome) -> Event {
    let reason = Some(outcome.reason(ending));
    Event { reason, error: outcome.error(ending), ..tenure.event(EventKind::SteppedDown) }
}

/// An error with everything that caused it.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        add_cause(&mut text, &error.to_string());
        source = error.source();
    }
    text
}

/// Some errors say what caused them themselves, sqlx's among them.
pub(crate) fn add_cause(text: &mut String, cause: &str) {
    if !text.contains(cause) {
        text.push_str(": ");
        text.push_str(cause);
    }
}

/// A future whose panics come out as errors, those of its destructor included.
pub(crate) struct Guarded<F>(Option<Pin<Box<F>>>);

impl<F: Future> Guarded<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }

    /// Drops the future.
    fn discard(&mut self) -> Result<(), Panic> {
        let future = self.0.take();
        catch(|| drop(future))
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.0.as_mut() else {
            return Poll::Pending;
        };
        match catch(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(self.discard().map(|()| output)),
            Err(panic) => {
                // The first panic is the one to tell of.
                let _ = self.discard();
                Poll::Ready(Err(panic))
            }
        }
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        let future = self.0.take();
        if let Err(panic) = catch(|| drop(future)) {
            tracing::error!(%panic, "a future panicked while it was dropped");
        }
    }
}

/// A caught panic, with the place it came from.
pub(crate) struct Panic {
    pub(crate) payload: Box<dyn Any + Send>,
    site: Option<Site>,
}

struct Site {
    location: String,
    backtrace: Backtrace,
    message: Option<String>,
}

impl Panic {
    fn new(payload: Box<dyn Any + Send>) -> Self {
        // The last panic on this thread may be one that the work caught itself, before `resume_unwind`, which calls no
        // hook.
        let site = SITE.with_borrow_mut(Option::take);
        let site = site.filter(|site| site.message.as_deref() == message(&*payload));
        Self { payload, site }
    }
}

fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let literal = payload.downcast_ref::<&str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = message(&*self.payload).unwrap_or("a payload that is no text");
        match &self.site {
            Some(site) => write!(f, "panicked at {}: {message}", site.location),
            None => write!(f, "panicked: {message}"),
        }
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

thread_local! {
    /// How many guarded calls are on this thread's stack.
    static GUARDED: Cell<usize> = const { Cell::new(0) };
    /// The place of the last panic in one of them.
    static SITE: RefCell<Option<Site>> = const { RefCell::new(None) };
}

fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    GUARDED.set(GUARDED.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(GUARDED.get() - 1);
    result.map_err(Panic::new)
}

/// Only the panic hook knows the place and the backtrace. The previous hook is always called.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if GUARDED.get() > 0 {
                let site = Site {
                    location: info.location().map(ToString::to_string).unwrap_or_default(),
                    backtrace: Backtrace::force_capture(),
                    message: message(info.payload()).map(ToOwned::to_owned),
                };
                SITE.with_borrow_mut(|slot| *slot = Some(site));
            }
            previous(info);
        }));
    });
}
