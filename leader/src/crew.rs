//! The tenures of a replica, and what happens to them when the protocol has decided.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::runtime::Handle;
use tokio::sync::{SetOnce, mpsc, oneshot, watch};

use crate::clock::{Clock, Moment};
use crate::error::Error;
use crate::event::{EventKind, Reporter};
use crate::keeper::Command;
use crate::name::{Namespace, WorkName};
use crate::protocol::{Campaign, Effect, Ending, Hold, Request, SessionId, Standing, Term};
use crate::registry::Works;
use crate::run::{Launch, launch};
use crate::state::States;
use crate::status::{Role, Status, WorkStatus};
use crate::tenure::{Founding, Tenure, Trust};
use crate::timings::Timings;
use crate::trace::Trace;
use crate::trouble::Trouble;
use crate::watchdog::Watchdog;

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
    pub(crate) renewals: Arc<Trust>,
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
    /// When the first claim of a name was turned away by a transaction.
    fenced_since: HashMap<WorkName, SystemTime>,
    /// The runtime that works run on is gone.
    abandoned: bool,
    /// The database did not end such transactions, and that was told.
    end_refused: bool,
}

struct Incumbent {
    tenure: Tenure,
    since: SystemTime,
}

impl Duties {
    /// The tenure of a name that runs here, if it is the one of this term (I2).
    fn tenure(&self, name: &WorkName, term: Term) -> Option<&Tenure> {
        self.running.get(name).map(|incumbent| &incumbent.tenure).filter(|tenure| tenure.term() == term)
    }
}

impl Crew {
    pub(crate) fn obey(&mut self, command: Command, campaign: &mut Campaign) {
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
                if let Some(term) = campaign.step_down(&name) {
                    self.duties.step_downs.push(((name, term), reply));
                } else {
                    let _ = reply.send(Err(Error::NotLeading(name.as_str().to_owned())));
                }
            }
            Command::ShutDown => self.shut_down(campaign),
            Command::Abandon => {
                self.duties.abandoned = true;
                self.shut_down(campaign);
            }
        }
        self.duties.changed = true;
    }

    fn shut_down(&mut self, campaign: &mut Campaign) {
        let news = campaign.shut_down();
        // The works hear of it before the log does.
        self.apply(campaign);
        if news {
            tracing::info!("shutting down");
        }
    }

    /// Does what the protocol decided.
    pub(crate) fn apply(&mut self, campaign: &mut Campaign) {
        let effects = campaign.effects();
        // The works hear of it before the log does, which can block.
        let now = self.clock.now();
        let mut news = Vec::new();
        for effect in &effects {
            if let Effect::End { name, term, ending: Ending::LeaseLost } = effect
                && let Some(tenure) = self.duties.tenure(name, *term)
                && tenure.mark_lost(now)
            {
                news.push(tenure.clone());
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
                    let confirms = &mut self.duties.confirms;
                    for (_, reply) in confirms.extract_if(.., |(at, _)| *at <= started) {
                        let _ = reply.send(());
                    }
                    if !confirms.is_empty() {
                        campaign.confirm();
                    }
                }
                Effect::Reaped { session, instance } => {
                    tracing::info!(%session, of = instance.as_deref(), "the session of another replica has expired");
                }
                Effect::Fenced { name, fenced } => {
                    tracing::warn!(
                        %name, session = %fenced.holder, of = fenced.instance.as_deref(),
                        "nobody leads this work any more, and nobody can be elected yet: a fenced transaction of its last leader is still open"
                    );
                    let since = SystemTime::now() - self.clock.now().since(fenced.since);
                    self.duties.fenced_since.insert(name, since);
                    self.duties.changed = true;
                }
                Effect::NotFenced { name } => {
                    self.duties.fenced_since.remove(&name);
                    tracing::debug!(%name, "no transaction keeps it from being claimed any more");
                    self.duties.changed = true;
                }
                Effect::FencedEnded { transactions } => {
                    tracing::warn!(transactions, "ended the fenced transactions of leaders that are gone");
                }
                Effect::NotClosed => tracing::warn!(
                    "the database could not be told of the shutdown; the names move when the lease expires"
                ),
            }
        }
    }

    pub(crate) fn publish_changes(&mut self, campaign: &Campaign) {
        if std::mem::take(&mut self.duties.changed) {
            self.publish(campaign);
        }
    }

    /// The keeper has nothing left to do.
    pub(crate) fn finish(&self) {
        let how = if self.duties.abandoned { Finished::Abandoned } else { Finished::ShutDown };
        let _ = self.finish.0.set(how);
    }

    fn trusted(&mut self, session: SessionId, good: Moment) {
        self.renewals.renewed(good);
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
        self.duties.fenced_since.remove(&name);
        let work = self.works.get(&name).expect("only registered names are campaigned for");
        let (known, trust) = self.duties.trust.as_ref().expect("a session that claims is trusted");
        debug_assert_eq!(*known, session, "a claim is answered under the session that made it");
        let Trace { span, id: trace_id } = Trace::begin(&name, term);
        let tenure = Tenure::new(Founding {
            name: name.clone(),
            term,
            session,
            namespace: self.namespace.clone(),
            trace_id,
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
                tenure,
                span,
                work: work.clone(),
                states: Arc::clone(&self.states),
                watchdog: self.watchdog.clone(),
                keeper: self.keeper.clone(),
                reporter: Arc::clone(&self.reporter),
            },
            &self.runtime,
        );
    }

    fn end(&mut self, name: &WorkName, term: Term, ending: Ending) {
        self.duties.changed = true;
        if let Some(tenure) = self.duties.tenure(name, term) {
            // One that was elected a moment ago was not marked with the others.
            if ending == Ending::LeaseLost {
                tenure.lose(self.clock.now());
            }
            tenure.end(ending);
            tracing::debug!(%name, %term, reason = %ending, "the work is told to end");
        }
    }

    fn released(&mut self, name: &WorkName, term: Term) {
        self.duties.changed = true;
        tracing::debug!(%name, %term, "released");
        let of_it = |((of, given), _): &mut (Hold, _)| of == name && *given == term;
        for (_, reply) in self.duties.step_downs.extract_if(.., of_it) {
            let _ = reply.send(Ok(()));
        }
    }

    /// Transitions only: a standby whose server is down for an hour writes a few lines.
    pub(crate) fn answers(&mut self, request: &Request) {
        if matches!(request, Request::EndFenced { .. }) {
            self.duties.end_refused = false;
        }
        if self.trouble.ends(request.statement()) {
            tracing::info!("the database answers again");
        }
    }

    pub(crate) fn fails(&mut self, request: &Request, error: &dyn std::fmt::Display) {
        if matches!(request, Request::EndFenced { .. }) {
            // The campaign goes on without it.
            if !std::mem::replace(&mut self.duties.end_refused, true) {
                tracing::warn!(%error, "cannot end the fenced transactions of leaders that are gone");
            }
            return;
        }
        if self.trouble.begins(request.statement(), self.clock.now(), &self.timings) {
            tracing::warn!(%error, "the database does not do what a lease needs; trying again");
        }
    }

    pub(crate) fn publish(&self, campaign: &Campaign) {
        let role = |name: &WorkName, standing: &Standing| {
            let running = self.duties.running.get(name);
            match (standing, running) {
                (Standing::Standby { .. }, _) => match campaign.fenced(name) {
                    None => Role::Standby,
                    Some(fenced) => Role::Fenced {
                        session: fenced.holder.to_string(),
                        instance: fenced.instance,
                        since: self.duties.fenced_since.get(name).copied().unwrap_or_else(SystemTime::now),
                    },
                },
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
#[derive(Clone, Default)]
pub(crate) struct Finish(Arc<SetOnce<Finished>>);

/// How a keeper went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// Somebody asked for it.
    ShutDown,
    /// It shut down, as the runtime that works run on was gone.
    Abandoned,
    /// It panicked.
    Broken,
}

impl Finish {
    pub(crate) async fn wait(&self) -> Finished {
        *self.0.wait().await
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.initialized()
    }
}

impl Drop for Crew {
    /// A keeper that panicked renews nothing any more: its tenures are over now, not at their deadline.
    fn drop(&mut self) {
        // It said so itself, unless it panicked.
        let _ = self.finish.0.set(Finished::Broken);
        let now = self.clock.now();
        let tenures = || self.duties.running.values().map(|incumbent| &incumbent.tenure);
        let lost: Vec<&Tenure> = tenures().filter(|tenure| tenure.mark_lost(now)).collect();
        self.watchdog.ring();
        for tenure in lost {
            tenure.tell_loss();
        }
    }
}
