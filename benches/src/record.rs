//! A figure with everything that it was measured under, as it is printed and kept.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::figures::{build, cost, crash, fence, handover, names};
use crate::place::{Choice, Database, Place};
use crate::process;

/// What to measure.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// From the return of a work to the first line of the next tenure
    Handover(handover::Options),
    /// From the SIGKILL of a leader to the next tenure
    Crash(crash::Options),
    /// Statements of idle replicas, by role, names and replicas
    Cost(cost::Options),
    /// Fenced transactions beside bare ones
    Fence(fence::Options),
    /// CPU, memory and takeover of a replica by its names
    Names(names::Options),
    /// Cold builds beside those of sqlx alone
    Build(build::Options),
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each is documented at its type")]
pub enum Figure {
    Handover(handover::Handover),
    Crash(crash::Crash),
    Cost(cost::Cost),
    Fence(fence::Fence),
    Names(names::Names),
    Build(build::Build),
}

/// A figure and what it was measured under.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The figure.
    pub figure: Figure,
    /// On which database, if on one.
    pub database: Option<Database>,
    /// Its version and settings.
    pub settings: Option<String>,
    /// The machine.
    pub machine: String,
    /// Measured with as little as shows that it works: the numbers mean nothing.
    pub quick: bool,
    /// Measured by a program without optimizations.
    pub debug: bool,
    /// How long measuring took, in seconds.
    pub took: f64,
}

impl Task {
    /// As little as shows that it works.
    #[must_use]
    pub fn quick(self) -> Self {
        match self {
            Self::Handover(options) => Self::Handover(options.quick()),
            Self::Crash(options) => Self::Crash(options.quick()),
            Self::Cost(options) => Self::Cost(options.quick()),
            Self::Fence(options) => Self::Fence(options.quick()),
            Self::Names(options) => Self::Names(options.quick()),
            Self::Build(options) => Self::Build(options.quick()),
        }
    }

    /// Measures it on a database of its own.
    ///
    /// # Errors
    ///
    /// When it cannot be measured.
    pub async fn measure(&self, choice: &Choice, quick: bool) -> anyhow::Result<Record> {
        let task = if quick { self.clone().quick() } else { self.clone() };
        let place = match task {
            Self::Build(_) => None,
            _ => Some(Place::open(choice).await?),
        };
        let began = Instant::now();
        let figure = match (&task, &place) {
            (Self::Build(options), _) => Figure::Build(build::measure(options)?),
            (_, None) => unreachable!("opened above"),
            (Self::Handover(options), Some(place)) => {
                Figure::Handover(handover::measure(place, options).await?)
            }
            (Self::Crash(options), Some(place)) => Figure::Crash(crash::measure(place, options).await?),
            (Self::Cost(options), Some(place)) => Figure::Cost(cost::measure(place, options).await?),
            (Self::Fence(options), Some(place)) => {
                Figure::Fence(Box::pin(fence::measure(place, options)).await?)
            }
            (Self::Names(options), Some(place)) => Figure::Names(names::measure(place, options).await?),
        };
        Ok(Record {
            figure,
            database: place.as_ref().map(|place| place.database),
            settings: place.map(|place| place.settings),
            machine: process::machine(),
            quick,
            debug: cfg!(debug_assertions),
            took: began.elapsed().as_secs_f64(),
        })
    }
}

impl Figure {
    /// What tells it from others on the same database, for the names of files.
    pub fn label(&self) -> String {
        match self {
            Self::Handover(handover) => {
                let pause = if handover.pause == 0 { "-no-pause" } else { "" };
                format!("handover-{}-replicas{pause}", handover.replicas)
            }
            Self::Crash(crash) => format!("crash-{}", crash.timings.word()),
            Self::Cost(cost) => {
                let most = cost.cells.iter().map(|cell| cell.replicas).max().unwrap_or_default();
                format!("cost-{most}-replicas")
            }
            Self::Fence(_) => "fence".to_owned(),
            Self::Names(_) => "names".to_owned(),
            Self::Build(_) => "build".to_owned(),
        }
    }
}

impl Record {
    /// Whether the other is of the same figure, on another database perhaps.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.figure.label() == other.figure.label()
    }

    /// Keeps it in a file of this directory.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn keep(&self, directory: &Path) -> anyhow::Result<()> {
        let database = self.database.map(|database| format!("-{}", database.word())).unwrap_or_default();
        let file = directory.join(format!("{}{database}.json", self.figure.label()));
        let json = serde_json::to_string_pretty(self)?;
        std::fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Reads those that are kept in this directory.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn read_all(directory: &Path) -> anyhow::Result<Vec<Self>> {
        let mut files: Vec<_> = std::fs::read_dir(directory)
            .with_context(|| format!("cannot read {}", directory.display()))?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        files
            .iter()
            .map(|file| {
                serde_json::from_slice(&std::fs::read(file)?)
                    .with_context(|| format!("{} holds no figure", file.display()))
            })
            .collect()
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handover(handover) => handover.fmt(f),
            Self::Crash(crash) => crash.fmt(f),
            Self::Cost(cost) => cost.fmt(f),
            Self::Fence(fence) => fence.fmt(f),
            Self::Names(names) => names.fmt(f),
            Self::Build(build) => build.fmt(f),
        }
    }
}

/// The table of the figure below what it was measured under.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}; {:.0} s", self.settings.as_deref().unwrap_or("no database"), self.took)?;
        if self.quick || self.debug {
            writeln!(f, "Not to be quoted: a quick run, or without optimizations.")?;
        }
        write!(f, "\n{}", self.figure)
    }
}
