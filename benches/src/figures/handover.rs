//! From the return of a work to the first line of the next tenure.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use leader::{Elector, Running, Tenure, Timings};
use leader_tests::harness::{PATIENCE, Sql};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};

use crate::floor::{Floor, FloorTimes};
use crate::on_database;
use crate::place::Place;
use crate::replicas::name;
use crate::statements::{self, Sent};
use crate::stats::{Samples, Summary};

/// How to measure it.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many handovers
    #[arg(long, default_value_t = 200)]
    pub n: usize,
    /// How many replicas, each an elector of this process with a thread and connections of its own
    #[arg(long, default_value_t = 2)]
    pub replicas: usize,
    /// How many names take turns: whoever gave one back stays away from it for a while
    #[arg(long, default_value_t = 64)]
    pub names: usize,
    /// The longest of the random pauses before each sample in milliseconds. With none, nothing has been idle before
    #[arg(long, default_value_t = 300)]
    pub pause: u64,
}

impl Options {
    /// As few as show that it works.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { n: 3, names: 3, ..self }
    }
}

/// What was measured, in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handover {
    /// How many replicas there were.
    pub replicas: usize,
    /// The longest pause before each sample, in milliseconds.
    pub pause: u64,
    /// From one tenure's last line to the next one's first.
    pub handover: Summary,
    /// Where the time goes, in the order of the phases.
    pub phases: Vec<(String, Summary)>,
    /// What the database takes at least: for the release, the news of it, a look, and the claim.
    pub floor: FloorTimes,
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| ms | {} |\n| --- | {} |", Summary::HEAD, Summary::RULE)?;
        writeln!(f, "| handover, {} replicas | {} |", self.replicas, self.handover)?;
        for (phase, took) in &self.phases {
            writeln!(f, "| of it: {phase} | {took} |")?;
        }
        writeln!(f, "{}", self.floor.rows())?;
        writeln!(f, "{}", self.floor.compare(self.handover.p50))
    }
}

/// Measures it.
///
/// # Errors
///
/// When electors do not start, or nobody is elected.
pub async fn measure(place: &Place, options: &Options) -> anyhow::Result<Handover> {
    on_database!(place.database, measure_on(place, options))
}

async fn measure_on<DB: Sql>(place: &Place, options: &Options) -> anyhow::Result<Handover> {
    statements::note();
    let mut stage = Stage::set(place, options).await?;
    let mut floor = Floor::<DB>::lay(&place.url).await?;
    let (mut samples, mut phases) = (Samples::default(), Phases::default());
    let mut returned = vec![None; options.names];
    for turn in 0..options.n {
        let work = turn % options.names;
        pause(returned[work], options.pause).await;
        let (last, first) = stage.hand_over(work).await?;
        samples.record(first - last);
        phases.record(last, first);
        returned[work] = Some(Instant::now());
        pause(None, options.pause).await;
        floor.sample().await?;
    }
    let floor = floor.finish().await?;
    stage.clear().await?;
    Ok(Handover {
        replicas: options.replicas,
        pause: options.pause,
        handover: samples.millis(),
        phases: phases.millis(),
        floor,
    })
}

/// Until every replica campaigns for the name again, and a random moment more: standbys that look in turns must not be
/// met at the same moment each time.
async fn pause(returned: Option<Instant>, longest: u64) {
    let timings = Timings::default();
    let away = timings.campaign + timings.campaign / 5 + Duration::from_millis(100);
    let rest = returned.map_or(Duration::ZERO, |at| away.saturating_sub(at.elapsed()));
    tokio::time::sleep(rest + Duration::from_millis(fastrand::u64(0..=longest))).await;
}

/// Where the time of handovers goes.
#[derive(Default)]
struct Phases([Samples; 6]);

impl Phases {
    const NAMES: [&str; 6] = [
        "until the release is sent",
        "the release",
        "until a standby is woken",
        "the look",
        "the claim",
        "until the first line",
    ];

    /// By what the keepers noted between the two lines. A handover whose claim was noted too late is left out.
    fn record(&mut self, last: Instant, first: Instant) {
        let sent = statements::between(last, first);
        let of = |sort: &str| sent.iter().rev().find(|sent| sent.sort == sort);
        let (Some(release), Some(claim)) = (of("release"), of("claim")) else { return };
        let before = |sent: &&Sent| sent.keeper == claim.keeper && sent.ended <= claim.began;
        // None where the news says what to claim.
        let look = sent.iter().filter(|sent| sent.sort == "scan").rfind(before);
        let until = |later: Instant, earlier: Instant| Some(later.saturating_duration_since(earlier));
        let took = [
            until(release.began, last),
            until(release.ended, release.began),
            // The news may be there before the answer.
            until(look.unwrap_or(claim).began, release.ended),
            look.and_then(|look| until(look.ended, look.began)),
            until(claim.ended, look.map_or(claim.began, |look| look.ended)),
            until(first, claim.ended),
        ];
        for (samples, took) in self.0.iter_mut().zip(took) {
            if let Some(took) = took {
                samples.record(took);
            }
        }
    }

    fn millis(&self) -> Vec<(String, Summary)> {
        let names = Self::NAMES.iter().map(ToString::to_string);
        names
            .zip(&self.0)
            .filter(|(_, took)| !took.is_empty())
            .map(|(name, took)| (name, took.millis()))
            .collect()
    }
}

/// Electors, and works that return when they are told to.
struct Stage {
    electors: Vec<Running>,
    cues: Vec<Arc<Notify>>,
    lines: mpsc::UnboundedReceiver<Line>,
}

/// A line of a work that is run.
struct Line {
    work: usize,
    at: Instant,
    which: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    First,
    Last,
}

impl Stage {
    /// The first replica leads everything.
    async fn set(place: &Place, options: &Options) -> anyhow::Result<Self> {
        let namespace = place.namespace("handover");
        let cues: Vec<Arc<Notify>> = (0..options.names).map(|_| Arc::default()).collect();
        let (say, lines) = mpsc::unbounded_channel();
        let mut stage = Self { electors: Vec::new(), cues, lines };
        for replica in 0..options.replicas {
            let mut builder = Elector::builder()
                .database(&place.url)
                .without_annotated()
                .namespace(&namespace)
                .instance(format!("replica {replica}"));
            for (work, cue) in stage.cues.iter().enumerate() {
                let (say, cue) = (say.clone(), Arc::clone(cue));
                builder = builder
                    .work(name(work), move |tenure| perform(tenure, Arc::clone(&cue), say.clone(), work));
            }
            stage.electors.push(builder.start().await?);
            if replica == 0 {
                for _ in 0..options.names {
                    stage.line().await?;
                }
            }
        }
        Ok(stage)
    }

    /// Lets a work return, and returns when that was and when the next tenure began.
    async fn hand_over(&mut self, work: usize) -> anyhow::Result<(Instant, Instant)> {
        self.cues[work].notify_one();
        let mut last = None;
        loop {
            let line = self.line().await?;
            match line.which {
                Which::Last if line.work == work => last = Some(line.at),
                Which::First if line.work == work => {
                    let last = last.context("a tenure began before the one before was over")?;
                    return Ok((last, line.at));
                }
                which => anyhow::bail!("the {which:?} line of work {} came by itself", line.work),
            }
        }
    }

    async fn line(&mut self) -> anyhow::Result<Line> {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await;
        let line = line.with_context(|| format!("nobody was elected within {PATIENCE:?}"))?;
        line.context("the works are gone")
    }

    async fn clear(self) -> anyhow::Result<()> {
        for elector in self.electors {
            elector.shutdown().await?;
        }
        Ok(())
    }
}

async fn perform(tenure: Tenure, cue: Arc<Notify>, say: mpsc::UnboundedSender<Line>, work: usize) {
    let say = |which| say.send(Line { work, at: Instant::now(), which });
    let _ = say(Which::First);
    tokio::select! {
        _ = tenure.ended() => {}
        () = cue.notified() => {}
    }
    let _ = say(Which::Last);
}
