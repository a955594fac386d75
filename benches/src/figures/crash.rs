//! From the SIGKILL of a leader to the next tenure.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use leader::Timings;
use leader_tests::harness::{Replica, now_ms};
use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::replicas::{Pace, Program, launch, name};
use crate::stats::{Samples, Summary};

/// How to measure it.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many crashes [default: 12 with the default timings, 100 with shorter ones]
    #[arg(long)]
    pub n: Option<usize>,
    /// The timings of the replicas
    #[arg(long, value_enum, default_value_t)]
    pub timings: Pace,
    /// How many crash at about the same time, each in a namespace of its own
    #[arg(long, default_value_t = 4)]
    pub beside: usize,
    #[command(flatten)]
    /// The replicas.
    pub program: Program,
}

impl Options {
    /// As few as show that it works.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { n: Some(2), beside: 1, timings: Pace::Patient, ..self }
    }
}

/// What was measured, in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Crash {
    /// The timings of the replicas.
    pub timings: Pace,
    /// From the kill to the next election.
    pub takeover: Summary,
}

impl Crash {
    /// The median that a lease allows: the leader dies half-way between two renewals.
    fn middle(&self) -> Duration {
        let Timings { lease, renew, .. } = self.timings.timings();
        lease.saturating_sub(renew / 2)
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        let lease = millis(self.timings.timings().lease);
        writeln!(f, "| ms | {} |\n| --- | {} |", Summary::HEAD, Summary::RULE)?;
        writeln!(f, "| crash, {} timings | {} |\n", self.timings.word(), self.takeover)?;
        writeln!(
            f,
            "p50 is lease − half a renewal {:+} ms, p99 is lease {:+} ms",
            (self.takeover.p50 - millis(self.middle())).round(),
            (self.takeover.p99 - lease).round()
        )
    }
}

/// Measures it.
///
/// # Errors
///
/// When there is no program `replica`.
///
/// # Panics
///
/// When nobody is elected.
pub async fn measure(place: &Place, options: &Options) -> anyhow::Result<Crash> {
    let program = options.program.find()?;
    let n = options.n.unwrap_or(match options.timings {
        Pace::Default => 12,
        Pace::Fast | Pace::Patient => 100,
    });
    let deployments = (0..options.beside).map(|deployment| {
        // As many for each, and one more for the first few.
        let crashes = (n + options.beside - 1 - deployment) / options.beside;
        crash_again_and_again(&program, place, options.timings, crashes)
    });
    let mut samples = Samples::default();
    for takeover in futures::future::join_all(deployments).await.concat() {
        samples.record(takeover);
    }
    Ok(Crash { timings: options.timings, takeover: samples.millis() })
}

/// A leader and a standby. When the leader dies, the standby is the next leader, and there is a new standby.
async fn crash_again_and_again(
    program: &Path,
    place: &Place,
    timings: Pace,
    crashes: usize,
) -> Vec<Duration> {
    let launch = launch(program, &place.url, &place.namespace("crash"), timings).work(&name(0), "idle");
    let mut leader = launch.start();
    election(&leader).await;
    let mut takeovers = Vec::new();
    for _ in 0..crashes {
        let standby = launch.start();
        standby.wait("the start", |event| event.is("started")).await;
        // Any moment between two renewals is as likely, and both have renewed before.
        let renew = timings.timings().renew;
        tokio::time::sleep(renew + renew.mul_f64(fastrand::f64())).await;
        let killed = now_ms();
        leader.kill();
        let took = election(&standby).await - killed;
        takeovers.push(Duration::from_millis(took.unsigned_abs()));
        leader = standby;
    }
    takeovers
}

async fn election(replica: &Replica) -> i64 {
    replica.wait("the election", |event| event.is("elected")).await.at_ms
}
