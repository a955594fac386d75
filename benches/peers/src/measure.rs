//! The figures of one peer.

use std::fmt;
use std::time::{Duration, Instant};

use leader_benches::place::{Database, Place};
use leader_benches::stats::{Samples, Summary, short};
use leader_benches::wire::Counter;
use serde::{Deserialize, Serialize};

use crate::contend::{Event, Options, now_us};
use crate::members::Members;
use crate::peer::Peer;

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Amount {
    /// How many handovers.
    pub handovers: u64,
    /// How many crashes.
    pub crashes: usize,
    /// How many names to count the statements for.
    pub names: Vec<usize>,
    /// How many seconds to count.
    pub seconds: u64,
}

impl Amount {
    /// What a table is made of.
    pub fn full() -> Self {
        Self { handovers: 200, crashes: 10, names: vec![1, 10, 100, 1_000], seconds: 18 }
    }

    /// As little as shows that it works.
    pub fn quick() -> Self {
        Self { handovers: 3, crashes: 1, names: vec![1, 10], seconds: 3 }
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Of whom.
    pub whose: String,
    /// From a work's return to the next election, in milliseconds.
    pub handover: Option<Summary>,
    /// From a SIGKILL to the next election, in milliseconds.
    pub crash: Option<Summary>,
    /// Statements a second by the number of names, of three replicas together: messages that wait for an answer.
    pub cost: Vec<(usize, f64)>,
}

/// Rows of the tables.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = &self.whose;
        for (figure, took) in [("handover", &self.handover), ("crash", &self.crash)] {
            match took {
                Some(took) => writeln!(f, "| {whose}: {figure}, ms | {took} |")?,
                None => writeln!(f, "| {whose}: {figure}, ms | not offered | | | | |")?,
            }
        }
        for (names, rate) in &self.cost {
            writeln!(f, "| {whose}: {names} names, statements/s | {} | | | | |", short(*rate))?;
        }
        Ok(())
    }
}

/// Measures a peer, on this database if it needs one.
pub async fn measure(peer: Peer, place: &Place, amount: &Amount) -> anyhow::Result<Figures> {
    peer.build()?;
    // Each figure on an etcd of its own: on one whose clients were killed while they campaigned, others were not elected
    // any more (3.4.23).
    let ground = async || Ground::of(peer, place).await;
    let mut figures = Figures { whose: peer.word(), handover: None, crash: None, cost: Vec::new() };
    if peer.hands_over() {
        figures.handover = Some(handover(peer, &ground().await?, amount.handovers).await?);
    }
    figures.crash = Some(crash(peer, &ground().await?, amount.crashes).await?);
    for &names in amount.names.iter().filter(|names| **names <= peer.most_names()) {
        let rate = rate(peer, &ground().await?, names, Duration::from_secs(amount.seconds)).await?;
        figures.cost.push((names, rate));
    }
    Ok(figures)
}

/// What replicas are given to stand on.
enum Ground {
    Postgres(String),
    #[cfg(feature = "etcd")]
    Etcd(crate::etcd::Server),
}

impl Ground {
    #[cfg_attr(not(feature = "etcd"), expect(clippy::unused_async, reason = "nothing is to be started"))]
    async fn of(peer: Peer, place: &Place) -> anyhow::Result<Self> {
        match peer {
            #[cfg(feature = "etcd")]
            Peer::Etcd => Ok(Self::Etcd(crate::etcd::Server::start().await?)),
            _ => Ok(Self::Postgres(place.url.clone())),
        }
    }

    /// A deployment that meets no other.
    fn deployment(&self, names: usize, hold: Option<u64>) -> Options {
        let url = match self {
            Self::Postgres(url) => url.clone(),
            #[cfg(feature = "etcd")]
            Self::Etcd(server) => server.address.clone(),
        };
        Options { url, prefix: format!("bench-{:08x}", fastrand::u32(..)), names, hold }
    }
}

async fn handover(peer: Peer, ground: &Ground, n: u64) -> anyhow::Result<Summary> {
    /// So many that there is always one that does not stay away.
    const REPLICAS: usize = 4;
    const NAMES: usize = 20;

    let options = ground.deployment(NAMES, Some(1_500));
    let mut members = Members::new();
    for _ in 0..REPLICAS {
        members.add(peer, &options).await?;
    }
    let mut returned = [None; NAMES];
    let mut samples = Samples::default();
    while samples.len() < n {
        let (_, line) = members.next().await?;
        match line.event {
            Event::Elected => {
                let since: Option<u64> = returned[line.name].take();
                // Lines of two processes may be read in the wrong order: such a pair does not count.
                if let Some(took) = since.and_then(|since| line.at_us.checked_sub(since)) {
                    samples.record(Duration::from_micros(took));
                }
            }
            Event::Returned => returned[line.name] = Some(line.at_us),
            Event::Started => {}
        }
    }
    Ok(samples.millis())
}

/// All at about the same time, each a deployment of its own.
async fn crash(peer: Peer, ground: &Ground, n: usize) -> anyhow::Result<Summary> {
    let mut crashes = tokio::task::JoinSet::new();
    for _ in 0..n {
        crashes.spawn(crash_once(peer, ground.deployment(1, None)));
    }
    let mut samples = Samples::default();
    while let Some(took) = crashes.join_next().await {
        samples.record(took??);
    }
    Ok(samples.millis())
}

async fn crash_once(peer: Peer, options: Options) -> anyhow::Result<Duration> {
    let mut members = Members::new();
    let leader = members.add(peer, &options).await?;
    members.elections(1).await?;
    members.add(peer, &options).await?;
    // Any moment between two renewals, of whichever peer.
    tokio::time::sleep(Duration::from_secs(5) + Duration::from_secs(5).mul_f64(fastrand::f64())).await;
    let killed = now_us();
    members.kill(leader)?;
    let (_, line) = members.elections(1).await?;
    Ok(Duration::from_micros(line.at_us.saturating_sub(killed)))
}

/// Statements a second of three idle replicas.
async fn rate(peer: Peer, ground: &Ground, names: usize, window: Duration) -> anyhow::Result<f64> {
    const REPLICAS: usize = 3;
    const SETTLED: Duration = Duration::from_secs(5);

    let mut options = ground.deployment(names, None);
    let counter = match ground {
        Ground::Postgres(url) => Some(Counter::to(Database::Postgres, url).await?),
        #[cfg(feature = "etcd")]
        Ground::Etcd(_) => None,
    };
    if let Some(counter) = &counter {
        counter.url().clone_into(&mut options.url);
    }
    let mut members = Members::new();
    members.add(peer, &options).await?;
    members.elections(names).await?;
    for _ in 1..REPLICAS {
        members.add(peer, &options).await?;
    }
    tokio::time::sleep(SETTLED).await;
    let (before, began) = (messages(ground, counter.as_ref()).await?, Instant::now());
    tokio::time::sleep(window).await;
    let sent = messages(ground, counter.as_ref()).await? - before;
    Ok(f64::from(u32::try_from(sent)?) / began.elapsed().as_secs_f64())
}

/// Counted on the wire, or by etcd.
#[cfg_attr(not(feature = "etcd"), expect(clippy::unused_async, reason = "nobody is asked"))]
async fn messages(ground: &Ground, counter: Option<&Counter>) -> anyhow::Result<u64> {
    match ground {
        Ground::Postgres(_) => Ok(counter.map_or(0, Counter::messages)),
        #[cfg(feature = "etcd")]
        Ground::Etcd(server) => server.messages().await,
    }
}
