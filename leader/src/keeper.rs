//! The part of the elector that talks to the database about sessions and names.
//!
//! It runs on a thread of its own with a runtime and a connection of its own, so that neither an exhausted pool nor
//! blocked threads of the application can cost the lease. It decides nothing: the [`Campaign`] does.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::crew::Crew;
use crate::error::Error;
use crate::event::EventKind;
use crate::name::WorkName;
use crate::protocol::{Attempt, Campaign, Failure, Next, Reply, Request, Session, SessionId, Term};
use crate::race::{First, race};
use crate::registry::Works;
use crate::store::{Cause, Store, StoreError};

/// What works and people tell the keeper.
pub(crate) enum Command {
    /// The work of a tenure is gone.
    Ended {
        name: WorkName,
        term: Term,
    },
    /// A tenure noticed that its deadline has passed.
    Overdue,
    /// A tenure asks the database whether it goes on.
    Confirm {
        reply: oneshot::Sender<()>,
    },
    StepDown {
        name: WorkName,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    ShutDown,
    /// The runtime that works run on is gone.
    Abandon,
}

/// What a keeper keeps.
pub(crate) struct Keeper<S> {
    pub(crate) store: S,
    /// The database, for people.
    pub(crate) target: String,
    pub(crate) create: bool,
    pub(crate) crew: Crew,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
}

impl<S: Store> Keeper<S> {
    /// Keeps until the shutdown is complete. `ready` hears once whether a session was opened.
    pub(crate) async fn keep(mut self, ready: oneshot::Sender<Result<(), Error>>) {
        let session = match self.begin().await {
            Ok(session) => session,
            Err(error) => {
                let _ = ready.send(Err(error));
                self.crew.finish();
                return;
            }
        };
        // Aborted when dropped.
        let mut companion = JoinSet::new();
        if let Some(task) = self.store.companion() {
            companion.spawn(task);
        }
        let works = &self.crew.works;
        let mut campaign = Campaign::new(
            self.crew.timings,
            works.keys().cloned(),
            session,
            crate::random::generator(),
            fresh_id,
        );
        self.crew.publish(&campaign);
        tracing::info!(
            instance = &*self.crew.reporter.instance,
            "campaigning for {} through {}",
            listed(works),
            self.target
        );
        self.crew.reporter.report_replica(EventKind::Started);
        if ready.send(Ok(())).is_err() {
            // Whoever started this has gone away meanwhile.
            campaign.shut_down();
        }
        self.drive(&mut campaign).await;
        drop(companion);
        self.store.hang_up();
        self.crew.reporter.report_replica(EventKind::Stopped);
        self.crew.finish();
    }

    /// The first session: all of it within one attempt, or nothing at all.
    async fn begin(&mut self) -> Result<Session, Error> {
        let within = self.crew.timings.attempt();
        let doing = format!("preparing {} for leases", self.target);
        let names: Vec<WorkName> = self.crew.works.keys().cloned().collect();
        let opening = async {
            let create = self.create;
            perform(&mut self.store, &Request::Prepare, create).await?;
            perform(&mut self.store, &Request::Ensure { names }, create).await?;
            let started = self.crew.clock.now();
            let id = fresh_id();
            perform(&mut self.store, &Request::Open { id }, create).await?;
            Ok::<_, StoreError>(Session::opened(id, started))
        };
        match tokio::time::timeout(within, opening).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(error)) => Err(Error::Database { doing, source: error.into() }),
            Err(_) => Err(Error::NoAnswer { doing, within }),
        }
    }

    async fn drive(&mut self, campaign: &mut Campaign) {
        loop {
            // All that has been said by now first: a thousand works that end at once are given back at once.
            while let Ok(command) = self.commands.try_recv() {
                self.crew.obey(command, campaign);
            }
            self.crew.apply(campaign);
            self.crew.publish_changes(campaign);
            match campaign.next(self.crew.clock.now()) {
                Next::Done => {
                    self.crew.apply(campaign);
                    self.crew.publish_changes(campaign);
                    return;
                }
                Next::Send(attempt) => {
                    let reply = self.send(&attempt, campaign).await;
                    campaign.answer(attempt, reply, self.crew.clock.now());
                }
                Next::Wait { until, hints } => {
                    let hint = async { if hints { self.store.changed().await } else { pending().await } };
                    let other = race(self.crew.clock.sleep_until(until), hint);
                    match race(heard(&mut self.commands), other).await {
                        First::One(command) => self.crew.obey(command, campaign),
                        First::Other(First::One(())) => {}
                        First::Other(First::Other(hint)) => campaign.hint(hint, self.crew.clock.now()),
                    }
                }
            }
        }
    }

    /// Sends one statement. Whatever happens meanwhile is heard; whatever hangs is given up, and its connection with
    /// it (I5).
    async fn send(&mut self, attempt: &Attempt, campaign: &mut Campaign) -> Result<Reply, Failure> {
        let clock = self.crew.clock.clone();
        let answer = {
            let call = perform(&mut self.store, &attempt.request, self.create);
            let mut call = pin!(race(clock.sleep_until(attempt.give_up), call));
            loop {
                match race(&mut call, heard(&mut self.commands)).await {
                    First::One(First::One(())) => break None,
                    First::One(First::Other(answer)) => break Some(answer),
                    First::Other(command) => {
                        self.crew.obey(command, campaign);
                        self.crew.apply(campaign);
                        if self.commands.is_empty() {
                            self.crew.publish_changes(campaign);
                        }
                    }
                }
            }
        };
        let took = clock.now().since(attempt.started);
        let statement = attempt.request.statement().word();
        #[cfg(feature = "metrics")]
        crate::metrics::statement(statement, took, matches!(answer, Some(Ok(_))));
        match answer {
            Some(Ok(reply)) => {
                tracing::debug!(statement, request = ?attempt.request, ?reply, ?took, "answered");
                self.crew.answers(&attempt.request);
                Ok(reply)
            }
            Some(Err(error)) => {
                tracing::debug!(statement, request = ?attempt.request, %error, ?took, "failed");
                self.crew.fails(&attempt.request, &error);
                if error.cause == Cause::NoTables {
                    return Err(Failure::NoTables);
                }
                self.store.hang_up();
                Err(Failure::Unknown)
            }
            None => {
                tracing::debug!(statement, request = ?attempt.request, ?took, "given up");
                self.crew.fails(&attempt.request, &"no answer in time");
                self.store.hang_up();
                Err(Failure::Unknown)
            }
        }
    }
}

/// The next command. Nobody may be left who gives any.
///
/// Cancel safe.
async fn heard(commands: &mut mpsc::UnboundedReceiver<Command>) -> Command {
    match commands.recv().await {
        Some(command) => command,
        None => pending().await,
    }
}

/// Runs one statement, again as long as it fails in passing. Whoever drops it bounds it.
async fn perform<S: Store>(store: &mut S, request: &Request, create: bool) -> Result<Reply, StoreError> {
    const LONGEST_PAUSE: Duration = Duration::from_millis(200);

    let mut pause = Duration::from_millis(5);
    loop {
        match perform_once(store, request, create).await {
            Err(error) if error.cause == Cause::Transient => {
                tracing::debug!(?request, %error, "failed in passing");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            done => return done,
        }
    }
}

async fn perform_once<S: Store>(store: &mut S, request: &Request, create: bool) -> Result<Reply, StoreError> {
    Ok(match request {
        Request::Prepare => {
            store.prepare(create).await?;
            Reply::Done
        }
        Request::Ensure { names } => {
            store.ensure(names).await?;
            Reply::Done
        }
        Request::Open { id } => {
            store.open(*id).await?;
            Reply::Done
        }
        Request::Renew { id } => Reply::Renewed(store.renew(*id).await?),
        Request::Held { id } => Reply::Held(store.held(*id).await?),
        Request::Scan { id } => Reply::Scanned(store.scan(*id).await?),
        Request::Reap { ids } => Reply::Reaped(store.reap(ids).await?),
        Request::Claim { id, names, gone } => Reply::Claimed(store.claim(*id, names, gone).await?),
        Request::Release { id, holds } => Reply::Released { kept: store.release(*id, holds).await? },
        Request::EndFenced { fenced } => Reply::FencedEnded { transactions: store.end_fenced(fenced).await? },
        Request::Close { id } => {
            store.close(*id).await?;
            Reply::Done
        }
    })
}

/// The first few names, for a line of the log.
fn listed(works: &Works) -> String {
    const MOST: usize = 8;

    let mut names: Vec<&str> = works.keys().map(WorkName::as_str).take(MOST).collect();
    if works.len() > MOST {
        names.push("…");
    }
    names.join(", ")
}

fn fresh_id() -> SessionId {
    SessionId::new(crate::random::bits())
}
