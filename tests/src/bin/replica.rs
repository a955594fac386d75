//! One replica, for black-box tests: registers works of given kinds, runs an elector and prints its events.
//!
//! Prints one JSON object a line on stdout. Logs go to stderr, filtered by `RUST_LOG`. Exit status: 0 after a graceful
//! stop, 1 when the start fails, 2 for malformed flags, 70 after an overrun.

use std::fmt::Debug;
use std::future::pending;
use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::{Parser, ValueEnum};
use leader::{Elector, Event, Tenure, Timings};
use leader_tests::harness::now_ms;
use serde_json::json;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{MySqlPool, PgPool, SqlitePool};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> ExitCode {
    let flags = Flags::parse();
    let level = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    let log = tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).with_writer(std::io::stderr);
    match flags.log_panics_at.clone() {
        Some(text) => log.finish().with(PanicsOnce { text, done: AtomicBool::new(false) }).init(),
        None => log.init(),
    }

    let mut runtime = match flags.worker_threads {
        Some(1) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Some(threads) = flags.worker_threads {
        runtime.worker_threads(threads);
    }
    let result =
        runtime.enable_all().build().map_err(Into::into).and_then(|runtime| runtime.block_on(run(flags)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    let application = Arc::new(Application {
        url: flags.database_url.clone(),
        connections: flags.app_pool,
        every: Duration::from_millis(flags.every),
        count_every: flags.count_every,
        pool: OnceCell::new(),
        seq: AtomicI64::new(0),
    });
    if let Some(url) = flags.run_before {
        let work = |tenure: Tenure| async move {
            tenure.ended().await;
        };
        let failed = Elector::builder().database(url).work("before", work).run().await;
        tracing::info!("the run before: {:?}", failed.err());
    }
    let mut builder = Elector::builder().database(flags.database_url).on_event(print);
    if let Some(namespace) = flags.namespace {
        builder = builder.namespace(namespace);
    }
    if let Some(instance) = flags.instance {
        builder = builder.instance(instance);
    }
    if let Some(GivenTimings(timings)) = flags.timings {
        builder = builder.timings(timings);
    }
    for WorkFlag { name, kind } in flags.work {
        let application = Arc::clone(&application);
        builder = builder.work(name, move |tenure| Arc::clone(&application).work(kind, tenure));
    }
    Ok(builder.run().await?)
}

/// A replica of a deployment, for black-box tests of `leader`.
#[derive(Parser)]
#[command(name = "replica")]
struct Flags {
    /// The database of the elector, and of the ledger
    #[arg(long, value_name = "URL")]
    database_url: String,
    /// A work to register; may be given any number of times
    #[arg(long, value_name = "NAME=KIND")]
    work: Vec<WorkFlag>,
    /// The namespace to campaign in
    #[arg(long)]
    namespace: Option<String>,
    /// What this replica is called
    #[arg(long)]
    instance: Option<String>,
    /// Timings that differ from the defaults, such as `lease=3s,renew=400ms`
    #[arg(long, value_name = "NAME=DURATION,…")]
    timings: Option<GivenTimings>,
    /// The pace of the works, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100)]
    every: u64,
    /// A work that appends counts the rows before every Nth of them, in the same transaction, and leaves that when its
    /// tenure ends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    count_every: Option<i64>,
    /// How many connections the pool of the works has
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    app_pool: u32,
    /// How many threads run the works [default: one per core]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    worker_threads: Option<usize>,
    /// A database to run another elector on before, which should fail
    #[arg(long, value_name = "URL")]
    run_before: Option<String>,
    /// Panic once, in the log, at the first record that holds this text
    #[arg(long, value_name = "TEXT")]
    log_panics_at: Option<String>,
}

/// A work's name and what it does.
#[derive(Clone, Debug)]
struct WorkFlag {
    name: String,
    kind: Kind,
}

impl FromStr for WorkFlag {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, kind) =
            text.rsplit_once('=').ok_or_else(|| anyhow!("write NAME=KIND, such as `mail=idle`"))?;
        let known = || {
            Kind::value_variants()
                .iter()
                .filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned()))
        };
        let kind = Kind::from_str(kind, false).map_err(|_| {
            anyhow!("no kind `{kind}`, the kinds are {}", known().collect::<Vec<_>>().join(", "))
        })?;
        let name = name.to_owned();
        Ok(Self { name, kind })
    }
}

/// What a work does.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Waits for the end
    Idle,
    /// Appends to the ledger in fenced transactions
    Ledger,
    /// Appends to the ledger after a check, without a fence
    Plain,
    /// Appends to the ledger and holds each transaction open
    SlowLedger,
    /// Returns after a while
    Returns,
    /// Fails after a while
    Fails,
    /// Panics after a while
    Panics,
    /// Ignores the end, and keeps yielding
    Stubborn,
    /// Ignores the end, and blocks its thread
    Blocks,
    /// Ignores the end, and keeps every thread busy
    Spins,
    /// Takes its time to return after the end
    SlowStop,
}

/// The defaults, with what was given in their place.
#[derive(Clone)]
struct GivenTimings(Timings);

impl FromStr for GivenTimings {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut timings = Timings::default();
        for part in text.split(',') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| anyhow!("write NAME=DURATION, such as `lease=3s`, not `{part}`"))?;
            let value = duration(value)?;
            match name {
                "lease" => timings.lease = value,
                "renew" => timings.renew = value,
                "deadline" => timings.deadline = value,
                "attempt" => timings.attempt = Some(value),
                "grace" => timings.grace = value,
                "margin" => timings.margin = value,
                "campaign" => timings.campaign = value,
                "release" => timings.release = value,
                "look" => timings.look = value,
                _ => bail!(
                    "no timing `{name}`, there are lease, renew, deadline, attempt, grace, margin, campaign, release and look"
                ),
            }
        }
        Ok(Self(timings))
    }
}

fn duration(text: &str) -> anyhow::Result<Duration> {
    let number = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let whole: Option<u64> = number.parse().ok();
    let duration = match (whole, &text[number.len()..]) {
        (Some(number), "ms") => Some(Duration::from_millis(number)),
        (Some(number), "s") => Some(Duration::from_secs(number)),
        (Some(number), "m") => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    };
    duration.ok_or_else(|| anyhow!("`{text}` is no duration, write a whole number and ms, s or m"))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("write a whole number of at least 1".into()),
    }
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

fn print(event: &Event) {
    let line = json!({
        "at_ms": now_ms(),
        "event": event.kind.to_string(),
        "name": event.name.as_ref().map(ToString::to_string),
        "term": event.term.map(leader::Term::get),
        "instance": event.instance.to_string(),
        "trace_id": event.trace_id.as_ref().map(ToString::to_string),
        "reason": event.reason,
        "error": event.error,
    });
    let line = format!("{line}\n");
    let mut stdout = std::io::stdout().lock();
    // Whoever read this is gone; that is no reason to fail the work.
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
}

/// A log that breaks, as a layer of somebody else's may.
struct PanicsOnce {
    text: String,
    done: AtomicBool,
}

impl<S: tracing::Subscriber> Layer<S> for PanicsOnce {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut message = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            if field.name() == "message" {
                message = format!("{value:?}");
            }
        });
        let breaks = message.contains(&self.text) && !self.done.swap(true, Ordering::Relaxed);
        assert!(!breaks, "the log broke at `{message}`");
    }
}

/// What the works share: the application around the elector.
struct Application {
    url: String,
    connections: u32,
    every: Duration,
    count_every: Option<i64>,
    /// Opened by the first work that needs it, so that it is the elector that judges the URL.
    pool: OnceCell<Pool>,
    /// How many rows this process has written.
    seq: AtomicI64,
}

enum Pool {
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

impl Application {
    async fn work(self: Arc<Self>, kind: Kind, tenure: Tenure) -> anyhow::Result<()> {
        match kind {
            Kind::Idle => {
                tenure.ended().await;
            }
            Kind::Ledger | Kind::Plain | Kind::SlowLedger => loop {
                // In a box: the future of an idle work, of which there may be ten thousand, would be as large.
                if let Err(error) = Box::pin(self.append(kind, &tenure)).await {
                    if tenure.ending().is_some() {
                        return Err(error);
                    }
                    tracing::warn!("{error:#}");
                    tenure.sleep(self.every).await?;
                } else if !matches!(kind, Kind::SlowLedger) {
                    tenure.sleep(self.every).await?;
                }
            },
            Kind::Returns => tenure.sleep(self.every).await?,
            Kind::Fails => {
                tenure.sleep(self.every).await?;
                bail!("failed on purpose");
            }
            Kind::Panics => {
                tenure.sleep(self.every).await?;
                panic!("panicked on purpose");
            }
            Kind::Stubborn => loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
            },
            Kind::Blocks => loop {
                std::thread::park();
            },
            Kind::Spins => {
                for _ in 1..Handle::current().metrics().num_workers() {
                    tokio::spawn(async { spin() });
                }
                spin();
            }
            Kind::SlowStop => {
                tenure.ended().await;
                tokio::time::sleep(self.every).await;
            }
        }
        Ok(())
    }

    /// Appends one row to the ledger.
    async fn append(&self, kind: Kind, tenure: &Tenure) -> anyhow::Result<()> {
        const COUNT: &str = "SELECT count(*) FROM ledger";
        /// `?` in place of PostgreSQL's numbered parameters.
        const INSERT: &str = "INSERT INTO ledger (name, term, instance, seq, at_ms) VALUES (?, ?, ?, ?, ?)";
        const INSERT_POSTGRES: &str =
            "INSERT INTO ledger (name, term, instance, seq, at_ms) VALUES ($1, $2, $3, $4, $5)";

        macro_rules! append {
            ($pool:expr, $insert:expr, $prepared:expr) => {{
                let seq = self.seq.fetch_add(1, Ordering::Relaxed);
                let row = sqlx::query($insert)
                    .persistent($prepared)
                    .bind(tenure.name())
                    .bind(tenure.term().get())
                    .bind(tenure.instance())
                    .bind(seq);
                if let Kind::Plain = kind {
                    tenure.check()?;
                    row.bind(now_ms()).execute($pool).await?;
                } else {
                    let mut transaction = tenure.begin($pool).await?;
                    let row = row.bind(now_ms());
                    if self.count_every.is_some_and(|every| seq % every == 0) {
                        let both = async {
                            sqlx::raw_sql(COUNT).execute(&mut *transaction).await?;
                            row.execute(&mut *transaction).await
                        };
                        tenure.until_ended(both).await??;
                    } else {
                        row.execute(&mut *transaction).await?;
                    }
                    if let Kind::SlowLedger = kind {
                        tenure.sleep(self.every).await?;
                    }
                    transaction.commit().await?;
                }
            }};
        }
        match self.pool.get_or_try_init(|| self.open()).await? {
            // Under a name it would stay on a connection of the server that a pooler gives to others next.
            Pool::Postgres(pool) => append!(pool, INSERT_POSTGRES, false),
            Pool::MySql(pool) => append!(pool, INSERT, true),
            Pool::Sqlite(pool) => append!(pool, INSERT, true),
        }
        Ok(())
    }

    /// Opens the pool and makes the ledger's table if it is missing. Its ids tell the order of the rows.
    async fn open(&self) -> anyhow::Result<Pool> {
        let (connections, url) = (self.connections, self.url.as_str());
        let scheme = url.split(':').next().unwrap_or_default();
        Ok(match scheme {
            "postgres" | "postgresql" => {
                let pool = PgPoolOptions::new().max_connections(connections).connect(url).await?;
                // Two that create a table at once fail, `IF NOT EXISTS` or not: one waits for the other here.
                sqlx::raw_sql(
                    "SELECT pg_advisory_xact_lock(hashtext('ledger')); \
                     CREATE TABLE IF NOT EXISTS ledger (id bigserial PRIMARY KEY, name text NOT NULL, term bigint NOT NULL, \
                     instance text NOT NULL, seq bigint NOT NULL, at_ms bigint NOT NULL)",
                )
                .execute(&pool)
                .await?;
                Pool::Postgres(pool)
            }
            "mysql" | "mariadb" => {
                let pool = MySqlPoolOptions::new().max_connections(connections).connect(url).await?;
                sqlx::raw_sql(
                    "CREATE TABLE IF NOT EXISTS ledger (id bigint AUTO_INCREMENT PRIMARY KEY, name varchar(191) NOT NULL, \
                     term bigint NOT NULL, instance varchar(255) NOT NULL, seq bigint NOT NULL, at_ms bigint NOT NULL) \
                     ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
                )
                .execute(&pool)
                .await?;
                Pool::MySql(pool)
            }
            "sqlite" => {
                let pool = SqlitePoolOptions::new().max_connections(connections).connect(url).await?;
                sqlx::raw_sql(
                    "CREATE TABLE IF NOT EXISTS ledger (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, \
                     term INTEGER NOT NULL, instance TEXT NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL) STRICT",
                )
                .execute(&pool)
                .await?;
                Pool::Sqlite(pool)
            }
            // The elector has refused to start; no work is ever run.
            _ => pending().await,
        })
    }
}
