//! Replicas as processes: the program `replica` of the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use leader::Timings;
use leader_tests::harness::local::FAST;
use leader_tests::harness::{Launch, Replica, eventually};
use serde::{Deserialize, Serialize};

/// Where the program `replica` is.
#[derive(Args, Clone, Debug, Default)]
pub struct Program {
    /// The program `replica` [default: built by cargo, beside this program and with its profile]
    #[arg(long, value_name = "PATH")]
    pub replica: Option<PathBuf>,
}

impl Program {
    /// The program, built if it was not given.
    ///
    /// # Errors
    ///
    /// When it cannot be built.
    pub fn find(&self) -> anyhow::Result<PathBuf> {
        if let Some(given) = &self.replica {
            return Ok(given.clone());
        }
        let me = std::env::current_exe()?;
        let beside = me.parent().context("this program is in a directory")?;
        let target = beside.parent().context("of a target directory")?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // Both packages, so that their dependencies have the features that they were built with already.
        cargo.args(["build", "--quiet", "-p", "leader-tests", "-p", "leader-benches", "--bin", "replica"]);
        cargo.args(if cfg!(debug_assertions) { &[][..] } else { &["--release"] });
        cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
        let status = cargo.status().context("cannot run cargo")?;
        ensure!(status.success(), "cargo does not build the program `replica`");
        Ok(beside.join("replica"))
    }
}

/// Which timings replicas have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// Those of users who set none
    #[default]
    Default,
    /// A tenth of the defaults
    Fast,
    /// Short ones that suffer a busy machine
    Patient,
}

impl Pace {
    /// The durations.
    pub fn timings(self) -> Timings {
        match self {
            Self::Default => Timings::default(),
            Self::Fast => FAST,
            Self::Patient => Timings {
                lease: Duration::from_secs(3),
                renew: Duration::from_millis(300),
                deadline: Duration::from_millis(2_500),
                attempt: Some(Duration::from_millis(2_200)),
                ..FAST
            },
        }
    }

    /// Its name in options and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Fast => "fast",
            Self::Patient => "patient",
        }
    }
}

/// How to start a replica in this namespace.
pub fn launch(program: &Path, url: &str, namespace: &str, pace: Pace) -> Launch {
    let launch = Launch::bare(program).flag("--database-url", url).flag("--namespace", namespace);
    launch.timings(&pace.timings())
}

/// Waits until a replica has been elected to so many names, and returns the time of the last election.
///
/// # Panics
///
/// When it ends, or has not been elected within the bound.
pub async fn elected(replica: &Replica, names: usize, bound: Duration) -> i64 {
    eventually(&format!("{names} elections"), bound, async || {
        assert!(replica.exited().is_none(), "it has ended: {replica}");
        let elections = replica.events().into_iter().filter(|event| event.is("elected"));
        let times: Vec<i64> = elections.map(|event| event.at_ms).collect();
        (times.len() >= names).then(|| times.into_iter().max().unwrap_or_default())
    })
    .await
}

/// The name of a work.
pub fn name(number: usize) -> String {
    format!("work {number:05}")
}
