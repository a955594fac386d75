//! What happens to a replica, for those who want to know as it happens.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use crate::name::{Namespace, WorkName};
use crate::protocol::Term;

/// Something that happened to a replica or to one of its tenures; see [`Builder::on_event`](crate::Builder::on_event).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// The name of the work, for events of a tenure.
    pub name: Option<WorkName>,
    /// The term of the tenure.
    pub term: Option<Term>,
    /// The replica.
    pub instance: Arc<str>,
    /// The trace id of the tenure.
    pub trace_id: Option<Arc<str>>,
    /// Why a tenure is over: `work returned`, `shutting down`, `lease lost`, `stepped down`, `runtime shut down`. For a
    /// lease that was lost after another ending: `while winding down`.
    pub reason: Option<String>,
    /// The error that a work returned, or its panic, with everything that caused it. Of an
    /// [`Overrun`](EventKind::Overrun): what runs on.
    pub error: Option<String>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The elector has a session and campaigns, or has found nothing to campaign for.
    Started,
    /// A tenure begins; its work has not run yet.
    Elected,
    /// A tenure's work is gone; the name has not been given back yet. Once per tenure, unless the process ends before.
    SteppedDown,
    /// A tenure's lease is lost, and its work has been told. [`SteppedDown`](Self::SteppedDown) or
    /// [`Overrun`](Self::Overrun) follows; never does `SteppedDown` come first.
    Lost,
    /// A work still runs although its time after the loss is over: the process ends.
    Overrun,
    /// The elector has shut down.
    Stopped,
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Started => "started",
            Self::Elected => "elected",
            Self::SteppedDown => "stepped_down",
            Self::Lost => "lost",
            Self::Overrun => "overrun",
            Self::Stopped => "stopped",
        })
    }
}

/// Writes to the application's log or metrics, whose mistakes cost the line and nothing else.
pub(crate) fn log(write: impl FnOnce()) {
    let _ = std::panic::catch_unwind(AssertUnwindSafe(write));
}

pub(crate) type Hook = dyn Fn(&Event) + Send + Sync;

/// Hands events to the application.
pub(crate) struct Reporter {
    pub(crate) instance: Arc<str>,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "a label of metrics"))]
    namespace: Namespace,
    hook: Option<Box<Hook>>,
}

impl Reporter {
    pub(crate) fn new(instance: Arc<str>, namespace: Namespace, hook: Option<Box<Hook>>) -> Self {
        Self { instance, namespace, hook }
    }

    pub(crate) fn report(&self, event: &Event) {
        #[cfg(feature = "metrics")]
        log(|| crate::metrics::event(&self.namespace, event));
        let Some(hook) = &self.hook else { return };
        // An application's mistake in a report must not cost the lease.
        if std::panic::catch_unwind(AssertUnwindSafe(|| hook(event))).is_err() {
            tracing::error!(kind = %event.kind, "the function given to `on_event` panicked");
        }
    }

    pub(crate) fn report_replica(&self, kind: EventKind) {
        self.report(&Event {
            kind,
            name: None,
            term: None,
            instance: Arc::clone(&self.instance),
            trace_id: None,
            reason: None,
            error: None,
        });
    }
}
