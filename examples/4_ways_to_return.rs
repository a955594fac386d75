//! Each way out of a work, and what is logged for it.
//!
//! Guaranteed: a tenure is logged once when it is over, with its name, term and trace id. INFO is what should be: a work
//! that is done, or that returned because its tenure ended. ERROR is what somebody should look at: an error of its own, or
//! a panic. What an error is, its types say, not its text. And the name is given back when the work is gone, not before.
//!
//! Not guaranteed: that a work which is done stays done. Whoever is elected next runs it again, so write down in a table
//! what must happen once. Nor that the replica which failed tries again: it waits, and others have their turn.
//!
//! Run it, look at the log, and press Ctrl-C after some seconds:
//!
//! ```console
//! $ cargo run --features programs --bin ways_to_return
//! ```

mod shared;

use std::future::pending;
use std::io;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use leader::{Ended, Failed, Tenure, Timings};

const A_WHILE: Duration = Duration::from_secs(1);

/// Done. INFO `stepped down`, reason `work returned`.
#[leader::work("done")]
async fn done(tenure: Tenure) -> Result<(), Ended> {
    tenure.sleep(A_WHILE).await
}

/// An error of its own gives the name away. ERROR `stepped down with an error`, reason `work returned`.
#[leader::work("failed")]
async fn failed(tenure: Tenure) -> anyhow::Result<()> {
    tenure.sleep(A_WHILE).await?;
    call(1).context("cannot fetch the rates")
}

/// What passes is tried again, as long as the tenure lasts: the log has what the work says of it, and the name stays.
/// Here `?` returns the ending alone, as it is in the next work.
#[leader::work("retried")]
async fn retried(tenure: Tenure) -> Result<(), Ended> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match call(attempt) {
            Ok(()) => tracing::info!(attempt, "the call came through"),
            Err(error) => tracing::warn!(attempt, %error, "the call failed; trying again"),
        }
        tenure.sleep(A_WHILE).await?;
    }
}

/// The ending as it is. INFO `stepped down`, with the reason: `shutting down`, `lease lost`, `stepped down`.
#[leader::work("ended")]
async fn ended(tenure: Tenure) -> Result<(), Ended> {
    loop {
        tenure.sleep(A_WHILE).await?;
    }
}

/// The ending with context, however deep. It is no error for that: the same as before.
#[leader::work("wrapped")]
async fn wrapped(tenure: Tenure) -> anyhow::Result<()> {
    loop {
        tenure.sleep(A_WHILE).await.context("between two rounds").context("while polling")?;
    }
}

/// The ending, and an error of its own on the way out. ERROR `stepped down with an error`, with the ending's reason.
#[leader::work("joined")]
async fn joined(tenure: Tenure) -> Result<(), Failed> {
    let ending = tenure.ended().await;
    call(1).map_err(|error| ending.with(error))
}

/// A panic counts as an error. ERROR `stepped down after a panic`, with its place and backtrace.
#[leader::work("panicked")]
async fn panicked(tenure: Tenure) {
    if tenure.sleep(A_WHILE).await.is_err() {
        return;
    }
    let rates: [u32; 0] = [];
    println!("the first rate of {} is {}", rates.len(), rates.first().expect("at least one rate"));
}

/// Dropped when the tenure ends, at its `.await`. INFO `stepped down`, with the reason.
#[leader::work("dropped", on_end = "drop")]
async fn dropped(_tenure: Tenure) {
    pending::<()>().await;
}

/// Something that fails every other time.
fn call(attempt: u32) -> io::Result<()> {
    if attempt.is_multiple_of(2) { Ok(()) } else { Err(io::Error::other("the line is busy")) }
}

/// Each way out of a work, and what is logged for it
#[derive(Parser)]
struct Flags {
    /// What carries the leases
    #[arg(long, env, default_value = "sqlite:ways.db?mode=rwc")]
    database_url: String,
    /// Seconds that a lease lasts; the other timings keep their proportions to it
    #[arg(long = "lease", env = "LEASE", default_value = "15", value_parser = shared::timings)]
    timings: Timings,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    shared::log();
    leader::Elector::builder().database(flags.database_url).timings(flags.timings).run().await?;
    Ok(())
}
