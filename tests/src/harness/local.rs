//! Electors inside the test, what they report, and a work that does what the test says.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leader::{Builder, Elector, Event, EventKind, Running, Tenure, Timings};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{PATIENCE, locked, now_ms};

/// The default timings, a tenth as long.
pub const FAST: Timings = Timings {
    lease: Duration::from_millis(1500),
    renew: Duration::from_millis(200),
    deadline: Duration::from_secs(1),
    attempt: None,
    grace: Duration::from_millis(500),
    margin: Duration::from_millis(50),
    campaign: Duration::from_millis(500),
    release: Duration::from_millis(500),
    look: Duration::from_millis(250),
};

/// A replica that hears of nothing for longer than anybody waits in a test: its own renewals are far apart.
pub const SLEEPY: Timings = Timings {
    lease: Duration::from_secs(100),
    renew: Duration::from_secs(2 * PATIENCE.as_secs()),
    deadline: Duration::from_secs(80),
    attempt: Some(Duration::from_secs(15)),
    ..FAST
};

/// An elector for the works of the test alone, that reports to `events` and never ends the process.
pub fn elector(database: impl Into<leader::Database>, instance: &str, events: &Events) -> Builder {
    Elector::builder()
        .database(database)
        .without_annotated()
        .instance(instance)
        .timings(FAST)
        .on_overrun(|_| {})
        .on_event(events.hook())
}

/// A tenure in the hands of the test, and the elector that won it.
#[derive(Debug)]
pub struct Led {
    /// What the elector reports.
    pub events: Events,
    /// The elector.
    pub running: Running,
    /// Its work.
    pub puppet: Puppet,
    /// The first tenure.
    pub tenure: Tenure,
}

impl Led {
    /// Waits until the elector leads that is given what to report to and what to do.
    ///
    /// # Panics
    ///
    /// When it does not start, or is not elected within [`PATIENCE`].
    pub async fn by(elector: impl FnOnce(&Events, &Puppet) -> Builder) -> Self {
        let events = Events::default();
        let mut puppet = Puppet::default();
        let running = elector(&events, &puppet).start().await.expect("the elector starts");
        let tenure = puppet.tenure().await;
        Self { events, running, puppet, tenure }
    }
}

/// Something that an elector reported.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What.
    pub event: Event,
    /// When, by tokio's clock.
    pub at: Instant,
    /// When, by the machine's wall clock.
    pub at_ms: i64,
}

impl Seen {
    /// Whether it is an event of this kind.
    pub fn is(&self, kind: EventKind) -> bool {
        self.event.kind == kind
    }

    /// Whether it is an event of this kind about this name.
    pub fn is_of(&self, kind: EventKind, name: &str) -> bool {
        self.is(kind) && self.event.name.as_ref().is_some_and(|of| of.as_str() == name)
    }

    /// Whether it is an event of this kind about this tenure.
    pub fn is_about(&self, kind: EventKind, tenure: &Tenure) -> bool {
        self.is(kind) && self.event.trace_id.as_deref() == Some(tenure.trace_id())
    }
}

/// What one or more electors reported, in order.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

struct Inner {
    seen: Mutex<Vec<Seen>>,
    count: watch::Sender<usize>,
}

impl Default for Events {
    fn default() -> Self {
        Self(Arc::new(Inner { seen: Mutex::default(), count: watch::channel(0).0 }))
    }
}

impl Events {
    /// What `on_event` is given.
    pub fn hook(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let inner = Arc::clone(&self.0);
        move |event| {
            let mut seen = locked(&inner.seen);
            seen.push(Seen { event: event.clone(), at: Instant::now(), at_ms: now_ms() });
            inner.count.send_replace(seen.len());
        }
    }

    /// Everything so far.
    pub fn all(&self) -> Vec<Seen> {
        locked(&self.0.seen).clone()
    }

    /// How many events of this kind there were so far.
    pub fn count(&self, kind: EventKind) -> usize {
        locked(&self.0.seen).iter().filter(|seen| seen.is(kind)).count()
    }

    /// The first event that is wanted, past ones included.
    ///
    /// # Panics
    ///
    /// When there is none within [`PATIENCE`].
    pub async fn wait(&self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Seen {
        self.wait_for(what, PATIENCE, wanted).await
    }

    /// The same within a bound of the test's own.
    ///
    /// # Panics
    ///
    /// When there is none within `bound`.
    pub async fn wait_for(&self, what: &str, bound: Duration, wanted: impl Fn(&Seen) -> bool) -> Seen {
        let mut count = self.0.count.subscribe();
        let looking = async {
            loop {
                count.borrow_and_update();
                // Not under the lock: `wanted` may want to look at others.
                if let Some(seen) = self.all().into_iter().find(&wanted) {
                    return seen;
                }
                count.changed().await.expect("this holds the sender");
            }
        };
        let found = tokio::time::timeout(bound, looking).await;
        found.unwrap_or_else(|_| panic!("waited {bound:?} in vain for {what}; there was {self:#?}"))
    }

    /// The event of this kind of a tenure.
    ///
    /// # Panics
    ///
    /// When there is none within [`PATIENCE`].
    pub async fn of(&self, kind: EventKind, tenure: &Tenure) -> Seen {
        let what = format!("`{kind}` of term {}", tenure.term());
        self.wait(&what, |seen| seen.is_about(kind, tenure)).await
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all();
        let first = all.first().map(|seen| seen.at);
        let line = |seen: &Seen| {
            let Event { kind, name, term, instance, reason, error, .. } = &seen.event;
            let after = first.map(|first| seen.at.duration_since(first));
            format!("{after:?} {instance} {kind} {name:?} {term:?} {reason:?} {error:?}")
        };
        f.debug_list().entries(all.iter().map(line)).finish()
    }
}

/// A work that does nothing by itself. It hands its tenure to the test, and returns when the tenure is over or the test
/// says so; while it is told to stay, it ignores both.
#[derive(Debug)]
pub struct Puppet {
    tenures: mpsc::UnboundedReceiver<Tenure>,
    string: Arc<watch::Sender<Pull>>,
    hand: mpsc::UnboundedSender<Tenure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pull {
    Obey,
    Return,
    Stay,
}

impl Default for Puppet {
    fn default() -> Self {
        let (hand, tenures) = mpsc::unbounded_channel();
        Self { tenures, string: Arc::new(watch::channel(Pull::Obey).0), hand }
    }
}

impl Puppet {
    /// What `Builder::work` is given. Several electors may share a puppet.
    pub fn work(
        &self,
    ) -> impl Fn(Tenure) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static {
        let (hand, string) = (self.hand.clone(), Arc::clone(&self.string));
        move |tenure| {
            let (hand, mut string) = (hand.clone(), string.subscribe());
            Box::pin(async move {
                let _ = hand.send(tenure.clone());
                let told = async {
                    tokio::select! {
                        _ = tenure.ended() => {}
                        _ = string.wait_for(|pull| *pull == Pull::Return) => {}
                    }
                };
                told.await;
                let _ = string.wait_for(|pull| *pull != Pull::Stay).await;
            })
        }
    }

    /// The next tenure.
    ///
    /// # Panics
    ///
    /// When there is none within [`PATIENCE`].
    pub async fn tenure(&mut self) -> Tenure {
        let next = tokio::time::timeout(PATIENCE, self.tenures.recv()).await;
        let next = next.unwrap_or_else(|_| panic!("nobody was elected within {PATIENCE:?}"));
        next.expect("this holds the sender")
    }

    /// From now on it ignores that its tenure is over.
    pub fn stay(&self) {
        self.string.send_replace(Pull::Stay);
    }

    /// It returns now if its tenure is over, and obeys from now on.
    pub fn obey(&self) {
        self.string.send_replace(Pull::Obey);
    }

    /// It returns at once, and so do later tenures until it is told to obey.
    pub fn leave(&self) {
        self.string.send_replace(Pull::Return);
    }
}
