//! A replica of a peer, as a process: it campaigns, works and prints what happens.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// What a replica campaigns for, and how.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Where: the URL of a database, or the address of an etcd
    #[arg(long)]
    pub url: String,
    /// Before each name, so that deployments do not meet
    #[arg(long)]
    pub prefix: String,
    /// How many names
    #[arg(long, default_value_t = 1)]
    pub names: usize,
    /// Works return after about so many milliseconds, and never unless this is given
    #[arg(long)]
    pub hold: Option<u64>,
}

impl Options {
    /// The name with this number.
    pub fn name(&self, number: usize) -> String {
        format!("{} {number}", self.prefix)
    }

    /// Works: until it returns, which may be never.
    pub async fn work(&self) {
        match self.hold {
            // Between half and one and a half of it.
            Some(hold) => tokio::time::sleep(Duration::from_millis(hold / 2 + fastrand::u64(0..=hold))).await,
            None => std::future::pending().await,
        }
    }
}

/// A line that a replica prints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Line {
    /// What happened.
    pub event: Event,
    /// To the name with this number.
    pub name: usize,
    /// When, in microseconds since the epoch, by the machine's clock.
    pub at_us: u64,
}

/// What happens to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// It campaigns.
    Started,
    /// The work begins.
    Elected,
    /// The work is over. The name has not been given back yet.
    Returned,
}

/// Prints a line.
pub fn say(event: Event, name: usize) {
    let line = Line { event, name, at_us: now_us() };
    let line = serde_json::to_string(&line).expect("it has no odd keys");
    let mut stdout = std::io::stdout().lock();
    // Whoever read this is gone, and ends this process.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// The machine's clock.
pub fn now_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
    u64::try_from(since_epoch.as_micros()).expect("a clock before the year 586,000")
}

/// How people write it by hand: a loop that looks at each name every so often, one statement each.
pub trait Loop: Sized {
    /// From one look to the next.
    const PERIOD: Duration;

    /// A connection for all names.
    async fn dial(options: &Options) -> anyhow::Result<Self>;

    /// Takes the name, if nobody has it. Whether it has.
    async fn take(&mut self, name: &str) -> anyhow::Result<bool>;

    /// Makes sure that it still has it.
    async fn keep(&mut self, name: &str) -> anyhow::Result<bool>;

    /// Gives it back.
    async fn give_back(&mut self, name: &str) -> anyhow::Result<()>;
}

/// Runs the loop for ever.
pub async fn contend<L: Loop>(options: &Options) -> anyhow::Result<()> {
    let mut seat = L::dial(options).await?;
    let mut standings = vec![Standing::Standby { from: Instant::now() }; options.names];
    let (over, mut ended) = mpsc::unbounded_channel();
    say(Event::Started, 0);
    tokio::time::sleep(L::PERIOD.mul_f64(fastrand::f64())).await;
    let mut look = tokio::time::interval(L::PERIOD);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            Some(number) = ended.recv() => {
                seat.give_back(&options.name(number)).await?;
                // Others come first, as with `leader`.
                standings[number] = Standing::Standby { from: Instant::now() + 2 * L::PERIOD };
            }
            _ = look.tick() => for (number, standing) in standings.iter_mut().enumerate() {
                match *standing {
                    Standing::Leading => {
                        anyhow::ensure!(seat.keep(&options.name(number)).await?, "lost the name {number}");
                    }
                    Standing::Standby { from } if from <= Instant::now() => {
                        if seat.take(&options.name(number)).await? {
                            *standing = Standing::Leading;
                            say(Event::Elected, number);
                            let (options, over) = (options.clone(), over.clone());
                            tokio::spawn(async move {
                                options.work().await;
                                say(Event::Returned, number);
                                let _ = over.send(number);
                            });
                        }
                    }
                    Standing::Standby { .. } => {}
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Standing {
    Standby { from: Instant },
    Leading,
}

/// Reads a line back.
pub fn read(line: &str) -> anyhow::Result<Line> {
    serde_json::from_str(line).with_context(|| format!("a replica said `{line}`"))
}
