//! A fenced transaction beside a bare one, each with one insert.

use std::fmt;
use std::time::{Duration, Instant};

use clap::Args;
use leader::{Elector, Tenure};
use leader_tests::harness::Sql;
use leader_tests::harness::local::Puppet;
use serde::{Deserialize, Serialize};
use sqlx::Pool;

use crate::on_database;
use crate::place::{Database, Place};
use crate::replicas::name;
use crate::stats::{Samples, Summary, short};
use crate::wire::Counter;

/// How to measure it.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many pairs
    #[arg(long, default_value_t = 10_000)]
    pub n: usize,
}

impl Options {
    /// As few as show that it works.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { n: 5 }
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fence {
    /// From `begin` to the end of `commit`, in milliseconds.
    pub bare: Summary,
    /// The same of a fenced transaction.
    pub fenced: Summary,
    /// Fenced by bare, pair by pair.
    pub ratio: Summary,
    /// Round trips of a bare and of a fenced transaction, on databases with a server.
    pub round_trips: Option<(u64, u64)>,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| ms | {} |\n| --- | {} |", Summary::HEAD, Summary::RULE)?;
        writeln!(f, "| bare | {} |\n| fenced | {} |", self.bare, self.fenced)?;
        writeln!(f, "| fenced ÷ bare, pair by pair | {} |", self.ratio)?;
        write!(f, "\nmedian of the pairs: {} × bare", short(self.ratio.p50))?;
        match self.round_trips {
            Some((bare, fenced)) => writeln!(f, "; {bare} round trips bare, {fenced} fenced"),
            None => writeln!(f),
        }
    }
}

/// Measures it.
///
/// # Errors
///
/// When the elector does not start, or a transaction fails.
pub async fn measure(place: &Place, options: &Options) -> anyhow::Result<Fence> {
    on_database!(place.database, measure_on(place, options))
}

async fn measure_on<DB: Sql>(place: &Place, options: &Options) -> anyhow::Result<Fence> {
    let mut puppet = Puppet::default();
    let elector = Elector::builder().database(&place.url).without_annotated();
    let elector = elector.namespace(place.namespace("fence")).work(name(0), puppet.work()).start().await?;
    let tenure = puppet.tenure().await;
    let table = Table::create(DB::pool_to(&place.url, 1)).await?;

    let (mut bare, mut fenced, mut ratio) = (Samples::default(), Samples::default(), Samples::default());
    // The first of each prepares and dials.
    table.bare().await?;
    table.fenced(&tenure).await?;
    for pair in 0..options.n {
        // Neither always comes first.
        let (without, with) = if pair % 2 == 0 {
            let without = table.bare().await?;
            (without, table.fenced(&tenure).await?)
        } else {
            let with = table.fenced(&tenure).await?;
            (table.bare().await?, with)
        };
        bare.record(without);
        fenced.record(with);
        ratio.record_ratio(with.as_secs_f64() / without.as_secs_f64());
    }
    let round_trips = match place.database {
        Database::Sqlite => None,
        _ => Some(round_trips::<DB>(place, &table.name, &tenure).await?),
    };
    table.drop().await?;
    elector.shutdown().await?;
    Ok(Fence { bare: bare.millis(), fenced: fenced.millis(), ratio: ratio.ratios(), round_trips })
}

/// What goes over the wire for one transaction of each sort.
async fn round_trips<DB: Sql>(place: &Place, table: &str, tenure: &Tenure) -> anyhow::Result<(u64, u64)> {
    let counter = Counter::to(place.database, &place.url).await?;
    let table = Table { pool: DB::pool_to(counter.url(), 1), name: table.to_owned() };
    // A pool pings what it is given back, in the background.
    let messages = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        counter.messages()
    };
    // Dialling and preparing are over after the first of each.
    table.bare().await?;
    table.fenced(tenure).await?;
    let start = messages().await;
    table.bare().await?;
    let between = messages().await;
    table.fenced(tenure).await?;
    Ok((between - start, messages().await - between))
}

/// Where the transactions insert.
struct Table<DB: Sql> {
    pool: Pool<DB>,
    name: String,
}

impl<DB: Sql> Table<DB> {
    async fn create(pool: Pool<DB>) -> anyhow::Result<Self> {
        let name = format!("leader_bench_{:08x}", fastrand::u32(..));
        let create = format!("CREATE TABLE {name} (id {}, what BIGINT NOT NULL)", DB::ID);
        DB::run(&mut *pool.acquire().await?, &create).await?;
        Ok(Self { pool, name })
    }

    async fn bare(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let mut transaction = self.pool.begin().await?;
        DB::run(&mut transaction, &self.insert()).await?;
        transaction.commit().await?;
        Ok(began.elapsed())
    }

    async fn fenced(&self, tenure: &Tenure) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let mut transaction = tenure.begin(&self.pool).await?;
        DB::run(&mut transaction, &self.insert()).await?;
        transaction.commit().await?;
        Ok(began.elapsed())
    }

    fn insert(&self) -> String {
        format!("INSERT INTO {} (what) VALUES (1)", self.name)
    }

    async fn drop(self) -> anyhow::Result<()> {
        Ok(DB::run(&mut *self.pool.acquire().await?, &format!("DROP TABLE {}", self.name)).await?)
    }
}
