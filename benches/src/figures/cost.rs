//! The statements of idle replicas, by their role, by the number of names and by the number of replicas.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use leader::{Elector, EventKind, Running, Tenure};
use leader_tests::harness::Sql;
use serde::{Deserialize, Serialize};
use sqlx::{MySql, Postgres};
use tokio::sync::watch;

use crate::place::{Database, Place};
use crate::replicas::name;
use crate::statements::{self, Sent};
use crate::stats::short;
use crate::wire::Counter;

/// How to measure it.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many names
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000")]
    pub names: Vec<usize>,
    /// How many replicas; one leads everything, the others stand by
    #[arg(long, value_delimiter = ',', default_value = "1,3,10")]
    pub replicas: Vec<usize>,
    /// How many seconds to count
    #[arg(long, default_value_t = 18)]
    pub seconds: u64,
}

impl Options {
    /// As few as show that it works.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { names: vec![1, 20], replicas: vec![2], seconds: 3 }
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// Each number of names with each number of replicas.
    pub cells: Vec<Cell>,
}

/// Statements a second of idle replicas. A statement is a message that waits for an answer, one transaction each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// How many names.
    pub names: usize,
    /// How many replicas.
    pub replicas: usize,
    /// Of the replica that leads all names.
    pub leader: f64,
    /// Of one that stands by, the mean of all.
    pub standby: Option<f64>,
    /// Of all replicas together.
    pub all: f64,
    /// What the server counted, if it tells: statements, of which a message may hold several.
    pub server: Option<f64>,
    /// Of all replicas, by sort, as their keepers log them.
    pub sorts: Vec<(String, f64)>,
    /// PostgreSQL's write-ahead log, in bytes a renewal: nothing else is written.
    #[serde(default)]
    pub wal: Option<f64>,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| names | replicas | leader/s | one standby/s | all/s | by the server/s | WAL bytes a renewal | sorts |"
        )?;
        writeln!(f, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")?;
        for Cell { names, replicas, leader, standby, all, server, sorts, wal } in &self.cells {
            let (leader, all) = (short(*leader), short(*all));
            let [standby, server, wal] =
                [standby, server, wal].map(|rate| rate.map_or("–".to_owned(), short));
            let sorts: Vec<String> =
                sorts.iter().map(|(sort, rate)| format!("{sort} {}", short(*rate))).collect();
            let sorts = sorts.join(", ");
            writeln!(
                f,
                "| {names} | {replicas} | {leader} | {standby} | {all} | {server} | {wal} | {sorts} |"
            )?;
        }
        Ok(())
    }
}

/// Measures it. On servers the statements are counted on the wire, on SQLite by what the keepers log.
///
/// # Errors
///
/// When electors do not start, or names are not led.
pub async fn measure(place: &Place, options: &Options) -> anyhow::Result<Cost> {
    statements::note();
    let mut cells = Vec::new();
    for &names in &options.names {
        for &replicas in &options.replicas {
            cells.push(cell(place, names, replicas, Duration::from_secs(options.seconds)).await?);
        }
    }
    Ok(Cost { cells })
}

async fn cell(place: &Place, names: usize, replicas: usize, window: Duration) -> anyhow::Result<Cell> {
    /// By then everybody has started and looked once.
    const SETTLED: Duration = Duration::from_secs(2);

    let namespace = place.namespace("cost");
    let mut all = vec![Idle::start(place, &namespace, names).await?];
    all[0].leads(names).await?;
    for _ in 1..replicas {
        all.push(Idle::start(place, &namespace, names).await?);
    }
    tokio::time::sleep(SETTLED).await;

    let server = ServerCount::begin(place).await?;
    let written = wal(place).await?;
    let began = Instant::now();
    let before: Vec<u64> = all.iter().map(Idle::messages).collect();
    tokio::time::sleep(window).await;
    let ended = Instant::now();
    let messages: Vec<u64> = all.iter().zip(before).map(|(idle, before)| idle.messages() - before).collect();
    let mut logged = statements::between(began, ended);
    logged.retain(|sent| all.iter().any(|idle| idle.keeper == sent.keeper));
    let server = server.end().await?;
    let written = written.zip(wal(place).await?).map(|(before, after)| (after - before).unsigned_abs());

    let keepers: Vec<ThreadId> = all.iter().map(|idle| idle.keeper).collect();
    for idle in all {
        idle.running.shutdown().await?;
    }
    let count = |is: &dyn Fn(&Sent) -> bool| logged.iter().filter(|sent| is(sent)).map(|_| 1).sum();
    let seconds = ended.duration_since(began).as_secs_f64();
    let rate = |count: u64| rate(count, seconds);
    let statements: Vec<u64> = match place.database {
        Database::Sqlite => keepers.iter().map(|keeper| count(&|sent| sent.keeper == *keeper)).collect(),
        _ => messages,
    };
    let standbys = u32::try_from(replicas - 1)?;
    let renewals = count(&|sent| sent.sort == "renew");
    let sorts: BTreeSet<&String> = logged.iter().map(|sent| &sent.sort).collect();
    let sorts = sorts.into_iter().map(|sort| (sort.clone(), rate(count(&|sent| sent.sort == *sort))));
    Ok(Cell {
        names,
        replicas,
        leader: rate(statements[0]),
        standby: (standbys > 0).then(|| rate(statements[1..].iter().sum()) / f64::from(standbys)),
        all: rate(statements.iter().sum()),
        server: server.map(rate),
        sorts: sorts.collect(),
        wal: written.map(|bytes| rate(bytes) / rate(renewals)),
    })
}

fn rate(count: u64, seconds: f64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / seconds
}

/// A replica whose works wait for their end: an elector of this process with a thread and connections of its own.
struct Idle {
    running: Running,
    keeper: ThreadId,
    elections: watch::Receiver<usize>,
    wire: Option<Counter>,
}

impl Idle {
    async fn start(place: &Place, namespace: &str, names: usize) -> anyhow::Result<Self> {
        let wire = match place.database {
            Database::Sqlite => None,
            server => Some(Counter::to(server, &place.url).await?),
        };
        let keeper = Arc::<Mutex<Option<ThreadId>>>::default();
        let (elected, elections) = watch::channel(0);
        let mut builder = Elector::builder()
            .database(wire.as_ref().map_or(place.url.as_str(), Counter::url))
            .without_annotated()
            .namespace(namespace)
            .on_event({
                let keeper = Arc::clone(&keeper);
                move |event| match event.kind {
                    // The keeper says this itself.
                    EventKind::Started => *keeper.lock().expect("no panic") = Some(thread::current().id()),
                    EventKind::Elected => elected.send_modify(|elections| *elections += 1),
                    _ => {}
                }
            });
        for work in 0..names {
            builder = builder.work(name(work), |tenure: Tenure| async move {
                tenure.ended().await;
            });
        }
        let running = builder.start().await?;
        let keeper = keeper.lock().expect("no panic").context("an elector that started said so")?;
        Ok(Self { running, keeper, elections, wire })
    }

    async fn leads(&mut self, names: usize) -> anyhow::Result<()> {
        const BOUND: Duration = Duration::from_mins(1);
        let all = self.elections.wait_for(|elections| *elections == names);
        tokio::time::timeout(BOUND, all).await.with_context(|| format!("{names} names in {BOUND:?}"))??;
        Ok(())
    }

    /// How many it has sent over the wire so far.
    fn messages(&self) -> u64 {
        self.wire.as_ref().map_or(0, Counter::messages)
    }
}

/// What MariaDB and MySQL say that all clients have asked.
struct ServerCount<'a> {
    place: &'a Place,
    before: Option<i64>,
    own: i64,
}

impl<'a> ServerCount<'a> {
    async fn begin(place: &'a Place) -> anyhow::Result<Self> {
        // Dialling and asking counts too, each time the same.
        let first = questions(place).await?;
        let before = questions(place).await?;
        let own = first.zip(before).map_or(0, |(first, before)| before - first);
        Ok(Self { place, before, own })
    }

    async fn end(self) -> anyhow::Result<Option<u64>> {
        let after = questions(self.place).await?;
        Ok(after.zip(self.before).map(|(after, before)| (after - before - self.own).unsigned_abs()))
    }
}

/// Where PostgreSQL's write-ahead log ends.
async fn wal(place: &Place) -> anyhow::Result<Option<i64>> {
    const QUERY: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";

    if place.database != Database::Postgres {
        return Ok(None);
    }
    let pool = Postgres::pool_to(&place.url, 1);
    let end = Postgres::number(&mut *pool.acquire().await?, QUERY).await?;
    pool.close().await;
    Ok(Some(end))
}

async fn questions(place: &Place) -> anyhow::Result<Option<i64>> {
    const QUERY: &str = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
         WHERE variable_name = 'QUESTIONS'";

    if place.database != Database::Mysql {
        return Ok(None);
    }
    let pool = MySql::pool_to(&place.url, 1);
    let questions = MySql::number(&mut *pool.acquire().await?, QUERY).await;
    pool.close().await;
    // MySQL keeps it elsewhere.
    Ok(questions.ok())
}
