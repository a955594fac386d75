//! What a replica takes by the number of its names, and how long it takes until all are led again after a crash.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use leader_tests::harness::{Replica, now_ms};
use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::process;
use crate::replicas::{Pace, Program, elected, launch, name};
use crate::stats::short;

/// How to measure it.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many names
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000")]
    pub names: Vec<usize>,
    /// How many seconds to watch idle replicas
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// The timings of the replicas
    #[arg(long, value_enum, default_value_t)]
    pub timings: Pace,
    #[command(flatten)]
    /// The replicas.
    pub program: Program,
}

impl Options {
    /// As few as show that it works.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { names: vec![1, 50], seconds: 1, timings: Pace::Patient, ..self }
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Names {
    /// Each number of names.
    pub rows: Vec<Row>,
}

/// Two replicas with so many names: one leads all, the other stands by until the first is killed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// How many names.
    pub names: usize,
    /// From the start of the process until all are led, in milliseconds.
    pub start_ms: i64,
    /// Of the idle leader.
    pub leader: Usage,
    /// Of the idle standby.
    pub standby: Usage,
    /// From the SIGKILL of the leader until all are led again, in milliseconds.
    pub crash_ms: i64,
}

/// What an idle process takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Percent of a core.
    pub cpu_percent: f64,
    /// Resident memory in MB.
    pub memory_mb: f64,
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| names | start, ms | leader, % of a core | MB | standby, % of a core | MB | crash, ms |"
        )?;
        writeln!(f, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
        for Row { names, start_ms, leader, standby, crash_ms } in &self.rows {
            writeln!(f, "| {names} | {start_ms} | {leader} | {standby} | {crash_ms} |")?;
        }
        Ok(())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {}", short(self.cpu_percent), short(self.memory_mb))
    }
}

/// Measures it.
///
/// # Errors
///
/// When there is no program `replica`, or one ends by itself.
///
/// # Panics
///
/// When not all names are led in time.
pub async fn measure(place: &Place, options: &Options) -> anyhow::Result<Names> {
    let program = options.program.find()?;
    let mut pairs = Vec::new();
    for &names in &options.names {
        pairs.push(Pair::start(&program, place, options.timings, names).await);
    }
    // All at once: idle replicas do not disturb each other.
    let window = Duration::from_secs(options.seconds);
    let usages = futures::future::try_join_all(pairs.iter().map(|pair| pair.idle(window))).await?;
    let crashes = pairs.iter().zip(0..).map(async |(pair, turn)| {
        tokio::time::sleep(turn * APART).await;
        pair.crash(options.timings).await
    });
    let crashes = futures::future::join_all(crashes).await;
    let rows = pairs.iter().zip(usages).zip(crashes).map(|((pair, (leader, standby)), crash_ms)| Row {
        names: pair.names,
        start_ms: pair.start_ms,
        leader,
        standby,
        crash_ms,
    });
    Ok(Names { rows: rows.collect() })
}

struct Pair {
    names: usize,
    start_ms: i64,
    leader: Replica,
    standby: Replica,
}

/// How far the crashes are apart: one takeover must not slow another down.
const APART: Duration = Duration::from_secs(2);

/// More than enough for whatever is measured.
const BOUND: Duration = Duration::from_mins(1);

impl Pair {
    async fn start(program: &Path, place: &Place, timings: Pace, names: usize) -> Self {
        let mut launch = launch(program, &place.url, &place.namespace("names"), timings);
        for work in 0..names {
            launch = launch.work(&name(work), "idle");
        }
        let began = now_ms();
        let leader = launch.start();
        let start_ms = elected(&leader, names, BOUND).await - began;
        let standby = launch.start();
        standby.wait("the start", |event| event.is("started")).await;
        Self { names, start_ms, leader, standby }
    }

    async fn idle(&self, window: Duration) -> anyhow::Result<(Usage, Usage)> {
        const SETTLED: Duration = Duration::from_secs(2);
        tokio::time::sleep(SETTLED).await;
        tokio::try_join!(usage(self.leader.pid(), window), usage(self.standby.pid(), window))
    }

    async fn crash(&self, timings: Pace) -> i64 {
        let killed = now_ms();
        self.leader.kill();
        elected(&self.standby, self.names, timings.timings().lease + BOUND).await - killed
    }
}

async fn usage(pid: i32, window: Duration) -> anyhow::Result<Usage> {
    let (before, began) = (process::cpu(pid)?, Instant::now());
    tokio::time::sleep(window).await;
    let spent = process::cpu(pid)?.saturating_sub(before);
    let cpu_percent = spent.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    Ok(Usage { cpu_percent, memory_mb: process::memory_mb(pid)? })
}
