//! An elector at work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;

use crate::crew::{Finish, Finished};
use crate::error::Error;
use crate::event::{EventKind, Reporter};
use crate::keeper::Command;
use crate::name::WorkName;
use crate::race::{First, race};
use crate::status::{Role, Status};
use crate::tenure::Trust;
use crate::timings::Timings;
use crate::trouble::Trouble;

/// An elector at work.
///
/// Dropped without [`shutdown`](Self::shutdown), it shuts down all the same, and nobody waits for it.
///
/// Where a health endpoint shares it, behind an `Arc`, [`Arc::into_inner`](std::sync::Arc::into_inner) gives it back for the
/// [`shutdown`](Self::shutdown) once the endpoint is gone.
#[must_use = "an elector that is dropped shuts down; keep it until the end"]
pub struct Running {
    pub(crate) keeper: mpsc::UnboundedSender<Command>,
    pub(crate) statuses: watch::Receiver<Status>,
    /// Nothing if there is nothing to campaign for.
    pub(crate) pulse: Option<Pulse>,
    pub(crate) finish: Finish,
    /// Where works run.
    pub(crate) runtime: Handle,
    pub(crate) shutdown_timeout: Option<Duration>,
    pub(crate) reporter: Arc<Reporter>,
}

/// How an elector is doing.
pub(crate) struct Pulse {
    /// The last good renewal, whatever its session.
    pub(crate) renewals: Arc<Trust>,
    pub(crate) trouble: Arc<Trouble>,
    pub(crate) timings: Timings,
}

impl Running {
    /// What this replica leads now.
    pub fn status(&self) -> Status {
        self.statuses.borrow().clone()
    }

    /// What this replica leads, as it changes. [`changed`](watch::Receiver::changed) is an error once the elector is gone,
    /// and at once where it has nothing to campaign for.
    ///
    /// It is a copy, kept by a task of the runtime that the elector was started on: where that is blocked, it stands still, and
    /// [`status`](Self::status) does not. A reference from [`borrow`](watch::Receiver::borrow) that you hold for long holds up
    /// this copy and nobody else.
    pub fn subscribe(&self) -> watch::Receiver<Status> {
        let mut from = self.statuses.clone();
        let (mut to, receiver) = watch::channel(from.borrow_and_update().clone());
        // Not the keeper's own, which would wait for whoever holds a reference; nor may a thread of the runtime.
        self.runtime.spawn(async move {
            while let First::One(Ok(())) = race(from.changed(), to.closed()).await {
                let status = from.borrow_and_update().clone();
                let send = move || {
                    to.send_replace(status);
                    to
                };
                match spawn_blocking(send).await {
                    Ok(sender) => to = sender,
                    Err(_) => return,
                }
            }
        });
        receiver
    }

    /// Whether the database confirmed this replica's session within the deadline, and does the other things a campaign
    /// needs. A replica without a session leads nothing and campaigns for nothing. One whose claims, say, have been
    /// failing for as long as the deadline is not healthy either, though the works that it leads go on.
    pub fn healthy(&self) -> bool {
        match &self.pulse {
            Some(Pulse { renewals, trouble, timings }) => {
                let now = renewals.now();
                !self.finish.is_over() && now < renewals.deadline() && !trouble.is_stuck(now, timings)
            }
            None => true,
        }
    }

    /// Tells a work to end and gives its name back once it has; resolves then. This replica waits for
    /// [`Timings::campaign`](crate::Timings::campaign) before it campaigns for the name again; others may take it at once.
    ///
    /// Cancel safe: once polled, the work is told whether or not anybody waits.
    ///
    /// # Errors
    ///
    /// [`Error::NotLeading`] if this replica does not lead the name, [`Error::Stopped`] if the elector is gone.
    pub async fn step_down(&self, name: &str) -> Result<(), Error> {
        let (Ok(name), Some(_)) = (WorkName::new(name), &self.pulse) else {
            return Err(Error::NotLeading(name.to_owned()));
        };
        let (reply, told) = oneshot::channel();
        self.keeper.send(Command::StepDown { name, reply }).map_err(|_| Error::Stopped)?;
        told.await.map_err(|_| Error::Stopped)?
    }

    /// Tells every work to end, waits until all have, gives their names back and closes the session. Renewals go on
    /// meanwhile.
    ///
    /// Dropped half-way, the shutdown goes on and nobody waits for it.
    ///
    /// # Errors
    ///
    /// [`Error::Shutdown`] names the works that still run after
    /// [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout). They keep their leases as long as the process lives,
    /// and a work that blocks its thread keeps it alive when `main` returns: end it with [`std::process::exit`].
    /// [`Error::Stopped`] if its thread panicked, which is a bug.
    pub async fn shutdown(self) -> Result<(), Error> {
        if self.pulse.is_none() {
            return Ok(());
        }
        let _ = self.keeper.send(Command::ShutDown);
        let outcome = async {
            match self.finish.wait().await {
                Finished::ShutDown | Finished::Abandoned => Ok(()),
                Finished::Broken => Err(Error::Stopped),
            }
        };
        let Some(within) = self.shutdown_timeout else { return outcome.await };
        if let Ok(outcome) = tokio::time::timeout(within, outcome).await {
            return outcome;
        }
        let running = self
            .status()
            .works
            .into_iter()
            .filter(|work| matches!(work.role, Role::Leading { .. } | Role::Ending { .. }));
        let error = Error::Shutdown { works: running.map(|work| work.name).collect(), within };
        // A work that blocks its thread keeps a runtime from being dropped, and so `main` from printing what it returns.
        tracing::error!("{error}");
        Err(error)
    }

    /// Resolves when the elector cannot go on: the runtime that it was started on is gone, so that no work can run any
    /// more, or its thread panicked, which is a bug. Losing the database is no reason, it keeps trying.
    ///
    /// Cancel safe.
    pub async fn failed(&self) -> Error {
        if self.pulse.is_some() && self.finish.wait().await != Finished::ShutDown {
            return Error::Stopped;
        }
        // Nothing to do, or shut down by somebody else, who has been told how that went.
        std::future::pending().await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.pulse.is_some() {
            let _ = self.keeper.send(Command::ShutDown);
        } else {
            self.reporter.report_replica(EventKind::Stopped);
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("status", &self.status()).finish_non_exhaustive()
    }
}
