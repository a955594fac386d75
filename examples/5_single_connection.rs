//! Holds the one session that an upstream allows: a feed that refuses a second subscriber.
//!
//! Guaranteed:
//! - The session is dialled when a tenure starts, and closed the moment it ends, whatever the end is.
//! - Closing it ends a read that knows nothing of tenures, as a library's may be, and one that blocks its thread.
//! - The name is given back when the reader is gone. So the upstream sees the end of one session before the next begins.
//!
//! Not guaranteed: a process that is frozen closes nothing. So the session has a heartbeat, and the upstream must drop one
//! that has been silent for less than `lease - deadline`, 5 s by default: then it is gone before a successor can be elected.
//! What the upstream sends while nobody listens is the upstream's to keep.
//!
//! ```console
//! $ cargo run --features programs --bin single_connection -- --upstream 127.0.0.1:7000
//! ```

mod shared;

use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use leader::{State, Tenure, Timings};
use tokio::task::spawn_blocking;

#[leader::work("feed")]
async fn feed(tenure: Tenure, State(upstream): State<Upstream>) -> anyhow::Result<()> {
    loop {
        if let Err(error) = subscribe(&tenure, &upstream).await {
            // The end of the tenure is no trouble with the upstream.
            tenure.check()?;
            tracing::warn!(%error, "no session; dialling again");
        }
        tenure.sleep(upstream.heartbeat).await?;
    }
}

/// Returns when the session is closed and its reader is gone.
async fn subscribe(tenure: &Tenure, upstream: &Upstream) -> anyhow::Result<()> {
    let session = tenure.until_ended(Session::dial(upstream)).await??;
    let reader = Arc::clone(&session.0);
    let mut reading = spawn_blocking(move || read(&reader));
    let broken = tokio::select! {
        broken = beat(tenure, &session.0, upstream.heartbeat) => broken.map(|never| match never {}),
        read = &mut reading => return Ok(read??),
    };
    drop(session);
    let _ = reading.await;
    broken
}

/// Closed when dropped, under whoever reads from it.
struct Session(Arc<TcpStream>);

impl Session {
    async fn dial(upstream: &Upstream) -> io::Result<Self> {
        let stream = tokio::net::TcpStream::connect(&upstream.address).await?.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(upstream.heartbeat))?;
        Ok(Self(Arc::new(stream)))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Knows nothing of tenures. It returns when the session is closed, by either side.
fn read(session: &TcpStream) -> io::Result<()> {
    for line in BufReader::new(session).lines() {
        println!("{}", line?);
    }
    Ok(())
}

/// Tells the upstream that this replica lives and leads, until the tenure is over.
async fn beat(tenure: &Tenure, session: &Arc<TcpStream>, every: Duration) -> anyhow::Result<Infallible> {
    loop {
        tenure.check()?;
        let session = Arc::clone(session);
        // Blocks for up to a heartbeat if the upstream takes nothing, and ends when the session is closed.
        let beat = spawn_blocking(move || (&*session).write_all(b"\n"));
        tenure.until_ended(beat).await???;
        tenure.sleep(every).await?;
    }
}

#[derive(Clone)]
struct Upstream {
    address: String,
    heartbeat: Duration,
}

/// Holds the one session that an upstream allows, and prints what it sends
#[derive(Parser)]
struct Flags {
    /// What carries the leases
    #[arg(long, env, default_value = "sqlite:feed.db?mode=rwc")]
    database_url: String,
    /// Host and port of the upstream
    #[arg(long, env)]
    upstream: String,
    /// Seconds that a lease lasts; the other timings, and the heartbeat, keep their proportions to it
    #[arg(long = "lease", env = "LEASE", default_value = "15", value_parser = shared::timings)]
    timings: Timings,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    shared::log();
    leader::Elector::builder()
        .database(flags.database_url)
        .timings(flags.timings)
        .state(Upstream { address: flags.upstream, heartbeat: flags.timings.lease / 15 })
        .run()
        .await?;
    Ok(())
}
