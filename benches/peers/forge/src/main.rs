//! A replica of forge-runtime with its defaults: see `../src/contend.rs` for what it is given and what it prints.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use forge_core::cluster::{LeaderRole, NodeId};
use forge_runtime::pg::LEADER_RELEASED_CHANNEL;
use forge_runtime::sqlx::postgres::{PgPool, PgPoolOptions};
use forge_runtime::sqlx::raw_sql;
use forge_runtime::{LeaderConfig, LeaderElection, PgNotifyBus};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Is a replica of forge-runtime
#[derive(Parser)]
struct Options {
    /// The URL of a PostgreSQL database
    #[arg(long)]
    url: String,
    /// Before each name, so that deployments do not meet
    #[arg(long)]
    prefix: String,
    /// How many names
    #[arg(long, default_value_t = 1)]
    names: u32,
    /// Works return after about so many milliseconds, and never unless this is given
    #[arg(long)]
    hold: Option<u64>,
    /// Campaigns as the runner of its daemons does, and not by the loop of its elections
    #[arg(long)]
    daemon: bool,
}

/// As its `migrations/system/v001_initial.sql` makes it. The rest of that file takes PostgreSQL 18.
const TABLE: &str = "SELECT pg_advisory_xact_lock(1); CREATE UNLOGGED TABLE IF NOT EXISTS forge_leaders ( \
     role VARCHAR(64) PRIMARY KEY, node_id UUID NOT NULL, acquired_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), \
     lease_until TIMESTAMPTZ NOT NULL)";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    // A connection for each name that is led or asked for, and one that listens.
    let pool = PgPoolOptions::new().max_connections(options.names + 1).connect(&options.url).await?;
    raw_sql(TABLE).execute(&pool).await?;
    // Those of the framework never end it either.
    let (_running, ends) = watch::channel(false);
    let bus = if options.daemon { None } else { Some(listen(&pool, ends).await?) };
    let replica = Arc::new(Replica { options, pool, bus, node: NodeId::new() });
    say("started", 0);
    let mut campaigns = JoinSet::new();
    for number in 0..replica.options.names {
        let replica = Arc::clone(&replica);
        campaigns.spawn(async move { replica.campaign(number).await });
    }
    while let Some(ended) = campaigns.join_next().await {
        ended??;
    }
    Ok(())
}

/// Has its bus listen for releases.
async fn listen(pool: &PgPool, ends: watch::Receiver<bool>) -> anyhow::Result<Arc<PgNotifyBus>> {
    let bus = Arc::new(PgNotifyBus::new(pool.clone(), &[LEADER_RELEASED_CHANNEL]));
    let mut connects = bus.subscribe_reconnects();
    tokio::spawn({
        let bus = Arc::clone(&bus);
        async move { bus.run(ends).await }
    });
    connects.changed().await.context("the bus runs")?;
    Ok(bus)
}

struct Replica {
    options: Options,
    pool: PgPool,
    bus: Option<Arc<PgNotifyBus>>,
    node: NodeId,
}

impl Replica {
    async fn campaign(&self, number: u32) -> anyhow::Result<()> {
        loop {
            let election = self.election(number)?;
            if self.options.daemon {
                self.lead_as_a_daemon(&election, number).await?;
            } else {
                self.lead(&election, number).await?;
            }
            // Others come first, as with `leader`: its elections would come back at once, and often win.
            while !election.check_leader_health().await? {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    fn election(&self, number: u32) -> anyhow::Result<Arc<LeaderElection>> {
        /// Of the column.
        const LONGEST: usize = 64;

        let name = format!("{} {number}", self.options.prefix);
        ensure!(name.len() <= LONGEST, "the name `{name}` is longer than {LONGEST} characters");
        let (role, config) = (LeaderRole::Daemon(name), LeaderConfig::default());
        let election = LeaderElection::new(self.pool.clone(), self.node, role, config);
        Ok(Arc::new(match &self.bus {
            Some(bus) => election.with_notify_bus(Arc::clone(bus)),
            None => election,
        }))
    }

    /// By its loop for elections, which tells nobody but those who look.
    async fn lead(&self, election: &Arc<LeaderElection>, number: u32) -> anyhow::Result<()> {
        let running = tokio::spawn({
            let election = Arc::clone(election);
            async move { election.run().await }
        });
        until(election, true).await;
        say("elected", number);
        tokio::select! {
            () = self.work() => say("returned", number),
            () = until(election, false) => bail!("lost the name {number}"),
        }
        // The loop gives the name back before it ends.
        election.stop();
        Ok(running.await?)
    }

    /// As `run_daemon_loop` of its `daemon/runner.rs`: it asks for the lock every five seconds and hears no announcement.
    async fn lead_as_a_daemon(&self, election: &LeaderElection, number: u32) -> anyhow::Result<()> {
        while !election.try_become_leader().await? {
            sleep(Duration::from_secs(5)).await;
        }
        say("elected", number);
        tokio::select! {
            () = self.work() => say("returned", number),
            lost = validate(election) => return lost.with_context(|| format!("lost the name {number}")),
            lost = refresh(election) => return lost.with_context(|| format!("lost the name {number}")),
        }
        Ok(election.release_leadership().await?)
    }

    /// Works: until it returns, which may be never.
    async fn work(&self) {
        match self.options.hold {
            // Between half and one and a half of it.
            Some(hold) => sleep(Duration::from_millis(hold / 2 + fastrand::u64(0..=hold))).await,
            None => std::future::pending().await,
        }
    }
}

/// Waits until it leads, or does not.
async fn until(election: &LeaderElection, leads: bool) {
    while election.is_leader() != leads {
        sleep(Duration::from_millis(1)).await;
    }
}

async fn validate(election: &LeaderElection) -> anyhow::Result<()> {
    loop {
        sleep(election.lock_validate_interval()).await;
        election.validate_lock_held().await?;
    }
}

async fn refresh(election: &LeaderElection) -> anyhow::Result<()> {
    loop {
        sleep(election.check_interval()).await;
        election.refresh_lease().await?;
    }
}

fn say(event: &str, name: u32) {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
    let at_us = u64::try_from(since_epoch.as_micros()).expect("a clock before the year 586,000");
    println!("{}", serde_json::json!({ "event": event, "name": name, "at_us": at_us }));
}
