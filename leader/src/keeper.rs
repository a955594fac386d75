//! The part of the elector that talks to the database about sessions and names.
//!
//! It runs on a thread of its own with a runtime and a connection of its own, so that neither an exhausted pool nor
//! blocked threads of the application can cost the lease. It decides nothing: the [`Campaign`] does.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Moment};
use crate::error::Error;
use crate::event::{EventKind, Reporter};
use crate::name::{Namespace, WorkName};
use crate::protocol::Ending;
use crate::protocol::{
    Attempt, Campaign, Effect, Failure, Hold, Next, Reply, Request, Session, SessionId, Standing, Term,
};
use crate::registry::Works;
use crate::run::{Launch, launch};
use crate::state::States;
use crate::status::{Role, Status, WorkStatus};
use crate::store::{Cause, Store, StoreError};
use crate::tenure::{Founding, Tenure, Trust};
use crate::timings::Timings;
use crate::trouble::Trouble;
use crate::watchdog::Watchdog;

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
        name: String,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    ShutDown,
}

/// What a keeper keeps.
pub(crate) struct Keeper<S> {
    pub(crate) store: S,
    /// The database, for people.
    pub(crate) target: String,
    pub(crate) create: bool,
    /// The first line of the log.
    pub(crate) greeting: String,
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
                self.crew.finish.clean();
                return;
            }
        };
        let companion = self.store.companion().map(|task| AbortOnDrop(tokio::spawn(task)));
        let names: Vec<WorkName> = self.crew.works.keys().cloned().collect();
        let mut campaign =
            Campaign::new(self.crew.timings, names, session, crate::random::generator(), fresh_id);
        self.crew.publish(&campaign);
        tracing::info!(instance = self.crew.reporter.instance(), "{}", self.greeting);
        self.crew.reporter.report_replica(EventKind::Started);
        if ready.send(Ok(())).is_err() {
            // Whoever started this has gone away meanwhile.
            campaign.shut_down();
        }
        self.drive(&mut campaign).await;
        drop(companion);
        self.store.hang_up();
        self.crew.reporter.report_replica(EventKind::Stopped);
        self.crew.finish.clean();
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
                Next::Wait { until, hints } => tokio::select! {
                    biased;
                    Some(command) = self.commands.recv() => self.crew.obey(command, campaign),
                    () = self.crew.clock.sleep_until(until) => {}
                    () = self.store.changed(), if hints => campaign.hint(self.crew.clock.now()),
                },
            }
        }
    }

    /// Sends one statement. Whatever happens meanwhile is heard; whatever hangs is given up, and its connection with
    /// it (I5).
    async fn send(&mut self, attempt: &Attempt, campaign: &mut Campaign) -> Result<Reply, Failure> {
        let clock = self.crew.clock.clone();
        let answer = {
            let mut given_up = pin!(clock.sleep_until(attempt.give_up));
            let mut call = pin!(perform(&mut self.store, &attempt.request, self.create));
            loop {
                tokio::select! {
                    biased;
                    () = &mut given_up => break None,
                    answer = &mut call => break Some(answer),
                    Some(command) = self.commands.recv() => {
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
        match answer {
            Some(Ok(reply)) => {
                tracing::debug!(request = ?attempt.request, ?reply, ?took, "answered");
                self.crew.answers(&attempt.request);
                Ok(reply)
            }
            Some(Err(error)) => {
                tracing::debug!(request = ?attempt.request, %error, ?took, "failed");
                self.crew.fails(&attempt.request, &error);
                if error.cause == Cause::NoTables {
                    return Err(Failure::NoTables);
                }
                self.store.hang_up();
                Err(Failure::Unknown)
            }
            None => {
                tracing::debug!(request = ?attempt.request, ?took, "given up");
                self.crew.fails(&attempt.request, &"no answer in time");
                self.store.hang_up();
                Err(Failure::Unknown)
            }
        }
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
        Request::Close { id } => {
            store.close(*id).await?;
            Reply::Done
        }
    })
}

fn fresh_id() -> SessionId {
    SessionId::new(crate::random::bits())
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The tenures of a replica, and everybody who wants to know about them.
pub(crate) struct Crew {
    pub(crate) works: Works,
    pub(crate) states: Arc<States>,
    pub(crate) timings: Timings,
    pub(crate) namespace: Namespace,
    pub(crate) clock: Clock,
    /// The application's runtime, where works run.
    pub(crate) runtime: Handle,
    pub(crate) watchdog: Watchdog,
    pub(crate) reporter: Arc<Reporter>,
    /// Handed to tenures.
    pub(crate) keeper: mpsc::UnboundedSender<Command>,
    pub(crate) status: watch::Sender<Status>,
    /// The last good renewal, whatever its session.
    pub(crate) pulse: Arc<Trust>,
    pub(crate) trouble: Arc<Trouble>,
    pub(crate) finish: Finish,
    pub(crate) duties: Duties,
}

/// What a crew has on its hands.
#[derive(Default)]
pub(crate) struct Duties {
    running: HashMap<WorkName, Incumbent>,
    trust: Option<(SessionId, Arc<Trust>)>,
    step_downs: Vec<(Hold, oneshot::Sender<Result<(), Error>>)>,
    confirms: Vec<(Moment, oneshot::Sender<()>)>,
    changed: bool,
}

struct Incumbent {
    tenure: Tenure,
    since: SystemTime,
}

impl Crew {
    fn obey(&mut self, command: Command, campaign: &mut Campaign) {
        match command {
            Command::Ended { name, term } => {
                self.duties.running.remove(&name);
                campaign.work_ended(&name, term, self.clock.now());
            }
            Command::Overdue => campaign.overdue(self.clock.now()),
            Command::Confirm { reply } => {
                self.duties.confirms.push((self.clock.now(), reply));
                campaign.confirm();
            }
            Command::StepDown { name, reply } => {
                let told = WorkName::new(&name)
                    .ok()
                    .and_then(|name| campaign.step_down(&name).map(|term| (name, term)));
                match told {
                    Some((name, term)) => self.duties.step_downs.push(((name, term), reply)),
                    None => {
                        let _ = reply.send(Err(Error::NotLeading(name)));
                    }
                }
            }
            Command::ShutDown => {
                if campaign.shut_down() {
                    tracing::info!("shutting down");
                }
            }
        }
        self.duties.changed = true;
    }

    /// Does what the protocol decided.
    fn apply(&mut self, campaign: &mut Campaign) {
        let effects = campaign.effects();
        // The works hear of it before the log does, which can block.
        let now = self.clock.now();
        let mut news = Vec::new();
        for effect in &effects {
            if let Effect::End { name, term, ending: Ending::LeaseLost } = effect
                && let Some(incumbent) = self.duties.running.get(name)
                && incumbent.tenure.term() == *term
                && incumbent.tenure.mark_lost(now)
            {
                news.push(incumbent.tenure.clone());
            }
        }
        if !news.is_empty() {
            self.watchdog.ring();
        }
        for tenure in news {
            tenure.tell_loss();
        }
        for effect in effects {
            match effect {
                Effect::Trusted { session, good } => self.trusted(session, good),
                Effect::SessionLost { session, why } => {
                    tracing::warn!(%session, %why, "session lost; a new one follows");
                    self.duties.confirms.clear();
                    self.duties.changed = true;
                }
                Effect::Elected { name, term, session } => self.elected(name, term, session),
                Effect::End { name, term, ending } => self.end(&name, term, ending),
                Effect::Released { name, term } => self.released(&name, term),
                Effect::Confirmed { started } => {
                    let asked = std::mem::take(&mut self.duties.confirms);
                    for (at, reply) in asked {
                        if at <= started {
                            let _ = reply.send(());
                        } else {
                            self.duties.confirms.push((at, reply));
                            campaign.confirm();
                        }
                    }
                }
                Effect::Reaped { session } => {
                    tracing::info!(%session, "the session of another replica has expired");
                }
                Effect::NotClosed => tracing::warn!(
                    "the database could not be told of the shutdown; the names move when the lease expires"
                ),
            }
        }
    }

    fn publish_changes(&mut self, campaign: &Campaign) {
        if std::mem::take(&mut self.duties.changed) {
            self.publish(campaign);
        }
    }

    fn trusted(&mut self, session: SessionId, good: Moment) {
        self.pulse.renewed(good);
        match &self.duties.trust {
            Some((known, trust)) if *known == session => trust.renewed(good),
            _ => {
                let trust = Trust::new(good, self.clock.clone(), self.timings);
                self.duties.trust = Some((session, Arc::new(trust)));
                self.duties.changed = true;
            }
        }
        let now = SystemTime::now();
        self.status.send_modify(|status| status.last_renewal = Some(now));
    }

    fn elected(&mut self, name: WorkName, term: Term, session: SessionId) {
        let (Some(work), Some((known, trust))) = (self.works.get(&name), &self.duties.trust) else {
            return;
        };
        debug_assert_eq!(*known, session, "a claim is answered under the session that made it");
        let tenure = Tenure::new(Founding {
            name: name.clone(),
            term,
            session,
            namespace: self.namespace.clone(),
            trust: Arc::clone(trust),
            keeper: self.keeper.clone(),
            reporter: Arc::clone(&self.reporter),
        });
        tracing::info!(%name, %term, trace_id = tenure.trace_id(), "elected");
        self.reporter.report(&tenure.event(EventKind::Elected));
        let running = Incumbent { tenure: tenure.clone(), since: SystemTime::now() };
        self.duties.running.insert(name, running);
        self.duties.changed = true;
        launch(
            Launch {
                watched: self.watchdog.watch(tenure.clone()),
                tenure,
                work: work.clone(),
                states: Arc::clone(&self.states),
                keeper: self.keeper.clone(),
                reporter: Arc::clone(&self.reporter),
            },
            &self.runtime,
        );
    }

    fn end(&mut self, name: &WorkName, term: Term, ending: Ending) {
        self.duties.changed = true;
        let Some(running) = self.duties.running.get(name).filter(|running| running.tenure.term() == term)
        else {
            return;
        };
        tracing::debug!(%name, %term, reason = %ending, "the work is told to end");
        running.tenure.end(ending);
    }

    fn released(&mut self, name: &WorkName, term: Term) {
        self.duties.changed = true;
        tracing::debug!(%name, %term, "released");
        let waiting = std::mem::take(&mut self.duties.step_downs);
        for ((of, given), reply) in waiting {
            if of == *name && given == term {
                let _ = reply.send(Ok(()));
            } else {
                self.duties.step_downs.push(((of, given), reply));
            }
        }
    }

    /// Transitions only: a standby whose server is down for an hour writes two lines.
    fn answers(&mut self, request: &Request) {
        if self.trouble.ends(request) {
            tracing::info!("the database answers again");
        }
    }

    fn fails(&mut self, request: &Request, error: &dyn std::fmt::Display) {
        if self.trouble.goes_on(request, self.clock.now(), &self.timings) {
            tracing::warn!(%error, "the database does not do what a lease needs; trying on");
        }
    }

    fn publish(&self, campaign: &Campaign) {
        let role = |name: &WorkName, standing: &Standing| {
            let running = self.duties.running.get(name);
            match (standing, running) {
                (Standing::Standby { .. }, _) => Role::Standby,
                (Standing::Leading { told: None, .. }, Some(running)) => Role::Leading {
                    term: running.tenure.term(),
                    since: running.since,
                    trace_id: Arc::clone(&running.tenure.0.trace_id),
                },
                (
                    Standing::Leading { term, .. }
                    | Standing::Releasing { term, .. }
                    | Standing::Lost { term, .. },
                    _,
                ) => Role::Ending { term: *term },
            }
        };
        let works = campaign
            .names()
            .map(|(name, standing)| WorkStatus { name: name.clone(), role: role(name, standing) })
            .collect();
        let session = campaign.session().map(|session| session.id.to_string());
        self.status.send_modify(|status| {
            status.works = works;
            status.session = session;
        });
    }
}

/// Tells everybody that the keeper is gone, and how.
pub(crate) struct Finish {
    pub(crate) finished: CancellationToken,
    pub(crate) cleanly: CancellationToken,
}

impl Finish {
    fn clean(&self) {
        self.cleanly.cancel();
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.finished.cancel();
    }
}

impl Drop for Crew {
    /// A keeper that panicked renews nothing any more: its tenures are over now, not at their deadline.
    fn drop(&mut self) {
        let now = self.clock.now();
        let tenures = || self.duties.running.values().map(|incumbent| &incumbent.tenure);
        let lost: Vec<&Tenure> = tenures().filter(|tenure| tenure.mark_lost(now)).collect();
        self.watchdog.ring();
        for tenure in lost {
            tenure.tell_loss();
        }
    }
}
