//! One tenure from claim to release: its task, its panic, its end.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::error::chain;
use crate::event::{Event, EventKind, Reporter, log};
use crate::keeper::Command;
use crate::panic::{Guarded, Panic, catch};
use crate::protocol::Ending;
use crate::race::{First, race};
use crate::registry::Enlisted;
use crate::state::States;
use crate::tenure::{Ended, Tenure, is_ending};
use crate::watchdog::{Watchdog, Watched};
use crate::work::{BoxError, OnEnd};

/// What a tenure needs to run.
pub(crate) struct Launch {
    pub(crate) tenure: Tenure,
    pub(crate) span: tracing::Span,
    pub(crate) work: Enlisted,
    pub(crate) states: Arc<States>,
    pub(crate) watchdog: Watchdog,
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
    /// Once its code runs.
    watched: OnceLock<Watched>,
}

impl Presence {
    /// Logs what the work returned, before its tasks are waited for.
    fn judge(&self, ending: Option<Ending>, end: &End) -> Event {
        // What was lost is told before what came of it. This may run while the keeper is unwinding, or in a drop.
        self.tenure.tell_loss();
        let event = Event {
            reason: Some(end.reason(ending)),
            error: end.error(ending),
            ..self.tenure.event(EventKind::SteppedDown)
        };
        log(|| self.span.in_scope(|| record(&event, end)));
        event
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
            self.tell(&self.judge(self.tenure.ending(), &End::Dropped));
            let _ = self.keeper.send(Command::Abandon);
        }
        // Clones of the tenure may live on; they must not look like a live one.
        self.tenure.end(Ending::SteppedDown);
        let _ =
            self.keeper.send(Command::Ended { name: self.tenure.0.name.clone(), term: self.tenure.term() });
    }
}

/// Runs the work of a tenure on the application's runtime.
pub(crate) fn launch(launch: Launch, runtime: &Handle) {
    let Launch { tenure, span, work, states, watchdog, keeper, reporter } = launch;
    crate::panic::install_hook();
    let presence = Arc::new(Presence {
        tenure: tenure.clone(),
        keeper,
        reporter,
        span: span.clone(),
        told: AtomicBool::new(false),
        watched: OnceLock::new(),
    });
    // A task of its own: a panic that nothing else catches ends there, and its handle says so.
    let task = runtime.spawn({
        let presence = Arc::clone(&presence);
        let tenure = tenure.clone();
        async move {
            // Declared first and so dropped last, when the future of the work is gone.
            let presence = presence;
            // A log, a hook or a busy runtime may have held it up since its election.
            if tenure.is_lost_by_now() {
                return End::Returned(Err(Ended(Ending::LeaseLost).into()));
            }
            let _ = presence.watched.set(watchdog.watch(tenure.clone()));
            run(work, tenure, states).await
        }
        .instrument(span.clone())
    });
    let patience = tenure.0.trust.grace();
    let supervise = async move {
        let end = match task.await {
            Ok(end) => end,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => End::Panicked(Panic::new(payload)),
                Err(_) => End::Dropped,
            },
        };
        // It may have heard before anybody else that the lease is lost: from the database, after a freeze.
        let ending = tenure.check().err().map(|ended| ended.ending());
        let event = presence.judge(ending, &end);
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

async fn run(work: Enlisted, tenure: Tenure, states: Arc<States>) -> End {
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
        Ok(returned) => End::Returned(returned),
        Err(panic) => End::Panicked(panic),
    }
}

/// What became of the work.
enum End {
    Returned(Result<(), BoxError>),
    Panicked(Panic),
    /// The runtime was shut down under it.
    Dropped,
}

impl End {
    /// What went wrong. A work that returns nothing but its ending has done what it should.
    fn error(&self, ending: Option<Ending>) -> Option<String> {
        match self {
            Self::Returned(Ok(())) => None,
            // The application's code too.
            Self::Returned(Err(error)) => catch(|| own_error(&**error, ending))
                .unwrap_or_else(|panic| Some(format!("an error that cannot be told: {panic}"))),
            Self::Panicked(panic) => Some(panic.to_string()),
            Self::Dropped => Some("the runtime was shut down before the work returned".to_owned()),
        }
    }

    fn reason(&self, ending: Option<Ending>) -> String {
        let alone = if matches!(self, Self::Dropped) { "runtime shut down" } else { "work returned" };
        ending.map_or_else(|| alone.to_owned(), |ending| ending.to_string())
    }
}

/// The text of an error that is more than the ending.
fn own_error(error: &(dyn StdError + 'static), ending: Option<Ending>) -> Option<String> {
    (ending.is_none() || !is_ending(error)).then(|| chain(error))
}

/// Logs the end of a tenure.
fn record(event: &Event, end: &End) {
    let reason = event.reason.as_deref();
    match (end, event.error.as_deref()) {
        (_, None) => tracing::info!(reason, "stepped down"),
        (End::Panicked(panic), Some(_)) => {
            let backtrace = panic.site.as_ref().map(|site| tracing::field::display(&site.backtrace));
            tracing::error!(reason, error = %panic, backtrace, "stepped down after a panic");
        }
        (_, Some(error)) => tracing::error!(reason, error, "stepped down with an error"),
    }
}
