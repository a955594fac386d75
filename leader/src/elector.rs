//! What a replica starts.

use std::fmt;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use crate::Tenure;
use crate::crew::{Crew, Duties, Finish};
use crate::database::Database;
use crate::error::Error;
use crate::event::{self, Event, EventKind, Reporter};
use crate::keeper::Keeper;
use crate::name::Namespace;
use crate::race::{First, race};
use crate::registry::{self, Candidate, Wishes, Works};
use crate::running::{Pulse, Running};
use crate::shutdown;
use crate::state::States;
use crate::status::Status;
use crate::store::{AnyStore, Scope};
use crate::tenure::Trust;
use crate::timings::Timings;
use crate::trouble::Trouble;
use crate::watchdog::{self, Overrun, Watchdog};
use crate::work::{Outcome, WORKS, Work};

/// Campaigns for every registered work, and runs what it wins.
///
/// ```no_run
/// # async fn example() -> Result<(), leader::Error> {
/// leader::Elector::builder()
///     .database(std::env::var("DATABASE_URL")?)
///     .run() // until SIGTERM or Ctrl-C
///     .await
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Elector {}

impl Elector {
    /// An elector with default timings and every work that was registered with the attribute.
    pub fn builder() -> Builder {
        Builder {
            database: None,
            namespace: "default".to_owned(),
            instance: None,
            states: States::default(),
            timings: Timings::default(),
            wishes: Wishes::default(),
            works: Vec::new(),
            annotated: true,
            migrate: true,
            shutdown_timeout: None,
            on_overrun: None,
            on_event: None,
        }
    }
}

/// Configures an [`Elector`].
#[must_use = "an elector does nothing until it is started"]
pub struct Builder {
    database: Option<Database>,
    namespace: String,
    instance: Option<String>,
    states: States,
    timings: Timings,
    wishes: Wishes,
    works: Vec<Candidate>,
    annotated: bool,
    migrate: bool,
    shutdown_timeout: Option<Duration>,
    on_overrun: Option<Box<watchdog::Hook>>,
    on_event: Option<Box<event::Hook>>,
}

impl Builder {
    /// The database that carries the leases: a URL, or a pool or connect options of sqlx. Every replica must use the
    /// same one. A SQLite file is turned to WAL mode. Of a pool only the connect options are taken: what it does in
    /// `after_connect`, a `search_path` say, belongs in the options, or the elector's tables are elsewhere.
    pub fn database(mut self, database: impl Into<Database>) -> Self {
        self.database = Some(database.into());
        self
    }

    /// Keeps the names of this deployment apart from those of others in the same database. `default` unless given; at
    /// most 64 bytes.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// What this replica is called in tables and logs. For people only: nothing is decided by it, and it need not be
    /// unique. Host, process id and a random part unless given.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// A value that works can ask for as [`State<T>`](crate::State). A second value of the same type replaces the first:
    /// two values of one type need a newtype each.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// The durations of the protocol. Replicas may differ, in a rolling change say: each session carries its own expiry.
    pub fn timings(mut self, timings: Timings) -> Self {
        self.timings = timings;
        self
    }

    /// The names that must be registered, no more and no fewer. The start fails if they differ: the linker drops a crate
    /// that nobody names, and its works with it, in silence. Each call adds to the list. It speaks of all that are registered,
    /// whether they may be led here or not.
    #[track_caller]
    pub fn expect<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.wishes.expect.get_or_insert_default().add(names, Location::caller());
        self
    }

    /// Registers a work without the attribute. It goes through the same checks. The closure is called once a tenure, and takes no
    /// states: move in what it needs. What `on_end = "drop"` does, [`Tenure::until_ended`] around its future does.
    ///
    /// ```
    /// let builder = leader::Elector::builder().work("janitor", |tenure: leader::Tenure| async move {
    ///     tenure.ended().await;
    /// });
    /// ```
    #[track_caller]
    pub fn work<F, R>(mut self, name: impl Into<String>, work: F) -> Self
    where
        F: Fn(Tenure) -> R + Send + Sync + 'static,
        R: Future + Send + 'static,
        R::Output: Outcome,
    {
        let start = Arc::new(move |tenure| Work::new(work(tenure)));
        self.works.push(Candidate::from_builder(name.into(), Location::caller(), start));
        self
    }

    /// The only names that this replica may lead. Unless given: all that are registered. States are needed for works
    /// that it may lead. A name that is not registered fails the start, here as in [`except`](Self::except).
    #[track_caller]
    pub fn only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.wishes.only.get_or_insert_default().add(names, Location::caller());
        self
    }

    /// Names that this replica must not lead, those of [`only`](Self::only) among them.
    #[track_caller]
    pub fn except<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.wishes.except.add(names, Location::caller());
        self
    }

    /// Ignores the works that were registered with the attribute: for tests that bring their own.
    #[cfg(any(test, feature = "test-util"))]
    pub fn without_annotated(mut self) -> Self {
        self.annotated = false;
        self
    }

    /// Whether the tables are created at start if they are missing. `true` unless given; the SQL is also shipped, see
    /// [`tables`](crate::tables).
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// The longest that a shutdown waits for works. For ever unless given: whoever stops the process bounds it.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = Some(timeout);
        self
    }

    /// Replaces the exit of the process when a work still runs after the loss of its lease and its grace. For tests:
    /// without the exit two replicas run the work at once. It is called on the watchdog's thread and must not block; a panic in
    /// it is logged. A second one replaces the first.
    pub fn on_overrun(mut self, hook: impl Fn(&Overrun) + Send + Sync + 'static) -> Self {
        self.on_overrun = Some(Box::new(hook));
        self
    }

    /// Hears of every election and every ending as it happens, and of the end of a tenure before its name is given back.
    /// It is called on the keeper's thread, among others, and must not block: while it does, no lease is renewed. A panic in it is
    /// logged. A second one replaces the first.
    pub fn on_event(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Box::new(hook));
        self
    }

    /// Starts the elector: checks everything, opens a session, and campaigns.
    ///
    /// Works run on the runtime that this is called in. Cancel safe: dropped half-way, nothing is left running.
    ///
    /// # Errors
    ///
    /// [`Error::Registration`], [`Error::Timings`] and [`Error::Config`] before the database is asked; [`Error::Database`] and
    /// [`Error::NoAnswer`] within the length of one attempt; [`Error::System`] if there is no thread to be had, and
    /// [`Error::Stopped`] if the keeper's panicked. No session is left behind but one whose opening was not
    /// answered, which expires by itself; tables and rows of names may have been made.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in one without timers (`enable_all` gives it some, which `#[tokio::main]` calls): tenures
    /// need them.
    pub async fn start(mut self) -> Result<Running, Error> {
        let runtime = Handle::current();
        // Panics where there are no timers: now, and not when the first tenure needs one.
        drop(tokio::time::sleep(Duration::ZERO));
        let (namespace, works, registered) = self.check()?;
        let Self {
            database, instance, states, timings, migrate, shutdown_timeout, on_overrun, on_event, ..
        } = self;

        let instance: Arc<str> = instance.unwrap_or_else(default_instance).into();
        let reporter = Arc::new(Reporter::new(Arc::clone(&instance), namespace.clone(), on_event));
        if cfg!(panic = "abort") {
            tracing::warn!("built with `panic = \"abort\"`: a work that panics ends the process");
        }

        #[cfg(feature = "metrics")]
        crate::metrics::start(&namespace, works.keys());

        let (status, statuses) = watch::channel(Status {
            instance: Arc::clone(&instance),
            namespace: namespace.as_str().into(),
            session: None,
            last_renewal: None,
            works: Vec::new(),
        });
        let (keeper, commands) = mpsc::unbounded_channel();
        let finish = Finish::default();
        let running = |pulse| Running {
            keeper: keeper.clone(),
            statuses,
            pulse,
            finish: finish.clone(),
            runtime: runtime.clone(),
            shutdown_timeout,
            reporter: Arc::clone(&reporter),
        };

        if works.is_empty() {
            if registered > 0 {
                tracing::warn!(%instance, "`only` and `except` leave this replica nothing to lead");
            } else {
                tracing::warn!(
                    %instance,
                    "no work is registered here, so nothing is campaigned for; if that is a surprise: the linker drops a crate that nobody names, \
                     and `use that_crate as _;` keeps it"
                );
            }
            reporter.report_replica(EventKind::Started);
            return Ok(running(None));
        }

        let database = database.ok_or_else(|| {
            Error::Config(
                "no database was given; call `.database(…)` on the builder with a URL or a pool".to_owned(),
            )
        })?;
        let database = database.resolve(&needing(&works))?;
        let target = database.to_string();
        let store = database.open(Scope {
            namespace: namespace.clone(),
            instance: column(&instance),
            lease: timings.lease,
            attempt: timings.attempt(),
            look: timings.look,
        });
        let clock = store.clock();
        let renewals = Arc::new(Trust::new(clock.now(), clock.clone(), timings));
        let trouble = Arc::<Trouble>::default();
        let pulse = Pulse { renewals: Arc::clone(&renewals), trouble: Arc::clone(&trouble), timings };
        let running = running(Some(pulse));
        let crew = Crew {
            works,
            states: Arc::new(states),
            timings,
            namespace,
            watchdog: Watchdog::new(clock.clone(), timings.margin, Arc::clone(&reporter), on_overrun),
            clock,
            runtime,
            reporter,
            keeper,
            status,
            renewals,
            trouble,
            finish,
            duties: Duties::default(),
        };
        let (ready, started) = oneshot::channel();
        let keeper = Keeper { store, target, create: migrate, crew, commands };
        spawn(keeper, ready)
            .map_err(|source| Error::System { doing: "starting the keeper's thread", source })?;
        started.await.map_err(|_| Error::Stopped)??;
        Ok(running)
    }

    /// Everything that can be checked without a database: the namespace, the works that this replica may lead, and how
    /// many are registered.
    fn check(&mut self) -> Result<(Namespace, Works, usize), Error> {
        self.timings.validate()?;
        let namespace = Namespace::new(&self.namespace).map_err(|why| {
            Error::Config(format!("the namespace {:?} cannot be used: {why}", self.namespace))
        })?;
        let annotated = WORKS.iter().filter(|_| self.annotated).map(Candidate::from_macro);
        let candidates: Vec<Candidate> = annotated.chain(std::mem::take(&mut self.works)).collect();
        let registered = candidates.len();
        let works = registry::check(candidates, &self.states, &self.wishes).map_err(Error::Registration)?;
        Ok((namespace, works, registered))
    }

    /// Starts the elector and runs it until SIGTERM or SIGINT, then shuts it down gracefully. A second signal, 50 ms later or more,
    /// ends the process at once, with the status 128 + its number.
    ///
    /// The signals are taken over once per process, with the first `run`, and serve every elector that runs. When none does any
    /// more, they end the process as they do by default. A signal during the start is obeyed when the database has answered, after
    /// one attempt at the latest; that the start fails is no error then.
    ///
    /// Dropped, it shuts down, and nobody waits for it.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start), [`Running::failed`] and [`Running::shutdown`], and [`Error::System`] if the system lets
    /// nobody listen for signals.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub async fn run(self) -> Result<(), Error> {
        let signals =
            shutdown::listen().map_err(|source| Error::System { doing: "listening for signals", source })?;
        let mut start = pin!(self.start());
        let running = match race(signals.first(), &mut start).await {
            First::Other(running) => running?,
            // Its session may be open by now, and names be claimed: what has begun is ended like any other. A start takes an
            // attempt at most.
            First::One(()) => {
                return match start.await {
                    Ok(running) => running.shutdown().await,
                    Err(_) => Ok(()),
                };
            }
        };
        signals.tell(running.keeper.clone());
        match race(signals.first(), running.failed()).await {
            First::One(()) => running.shutdown().await,
            First::Other(error) => Err(error),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("database", &self.database)
            .field("namespace", &self.namespace)
            .field("timings", &self.timings)
            .finish_non_exhaustive()
    }
}

/// Starts a keeper and its watchdog: on threads and a runtime of their own, or on the runtime of a test, whose clock may
/// be paused.
fn spawn(keeper: Keeper<AnyStore>, ready: oneshot::Sender<Result<(), Error>>) -> std::io::Result<()> {
    #[cfg(any(test, feature = "test-util"))]
    if keeper.store.is_simulated() {
        let watchdog = keeper.crew.watchdog.clone();
        tokio::spawn(async move {
            race(Box::pin(keeper.keep(ready)), watchdog.run()).await;
        });
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    keeper.crew.watchdog.spawn_thread()?;
    std::thread::Builder::new()
        .name("leader-keeper".to_owned())
        .spawn(move || runtime.block_on(keeper.keep(ready)))
        .map(drop)
}

/// Who needs a lease, for a message.
fn needing(works: &Works) -> String {
    let names: Vec<String> = works.keys().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [one] => format!("the work {one} needs"),
        several => format!("the works {} need", several.join(", ")),
    }
}

/// Host, process id and a random part.
fn default_instance() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|host| host.trim().to_owned())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "localhost".to_owned());
    let random = crate::random::bits() & 0xff_ffff;
    format!("{host}-{}-{random:06x}", std::process::id())
}

/// What the column for people holds.
fn column(instance: &str) -> String {
    const LONGEST: usize = 255;

    instance.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}
