//! What others take for handover, crash and idle replicas, on the server that `leader` is measured on in the same run.
//!
//! ```console
//! $ cargo run --release --features etcd -- all --out ../../target/peers
//! ```

mod advisory;
mod contend;
#[cfg(feature = "etcd")]
mod etcd;
mod measure;
mod members;
mod peer;
mod rows;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use leader_benches::figures::{cost, crash, handover};
use leader_benches::place::{Choice, Database, Place};
use leader_benches::replicas::{Pace, Program};
use leader_benches::stats::Summary;

use measure::{Amount, measure};
use peer::Peer;

/// Measures others beside `leader`
#[derive(Parser)]
#[command(name = "leader-peers")]
struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures these peers, or all
    All {
        /// Whom
        peers: Vec<Peer>,
        /// Where to keep the figures, one JSON file each
        #[arg(long, value_name = "DIRECTORY")]
        out: Option<PathBuf>,
        /// As little as shows that it works: the numbers mean nothing
        #[arg(long)]
        quick: bool,
        #[command(flatten)]
        program: Program,
    },
    /// Is a replica
    Contend {
        /// Of whom
        peer: Peer,
        #[command(flatten)]
        options: contend::Options,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Flags::parse().command {
        Command::Contend { peer, options } => peer.contend(&options).await,
        Command::All { peers, out, quick, program } => {
            let peers = if peers.is_empty() { Peer::value_variants().to_vec() } else { peers };
            let place = Place::open(&Choice { database: Database::Postgres, database_url: None }).await?;
            println!("{}\n\n| | {} |\n| --- | {} |", place.settings, Summary::HEAD, Summary::RULE);
            let amount = if quick { Amount::quick() } else { Amount::full() };
            ours(&place, &program, &amount).await?;
            let mut failed = false;
            for peer in peers {
                match measure(peer, &place, &amount).await {
                    Ok(figures) => {
                        print!("{figures}");
                        if let Some(out) = &out {
                            std::fs::create_dir_all(out)?;
                            let file = out.join(format!("{}.json", peer.word()));
                            std::fs::write(file, serde_json::to_string_pretty(&figures)?)?;
                        }
                    }
                    Err(error) => {
                        failed = true;
                        eprintln!("error: {}: {error:#}", peer.word());
                    }
                }
            }
            (!failed).then_some(()).context("not all could be measured")
        }
    }
}

/// The rows of `leader`, by its own benches on the same server.
async fn ours(place: &Place, program: &Program, amount: &Amount) -> anyhow::Result<()> {
    let options = handover::Options { n: usize::try_from(amount.handovers)?, replicas: 2, names: 64 };
    let figure = handover::measure(place, &options).await?;
    println!("| leader: handover, ms | {} |", figure.handover);
    print!("{}", figure.floor.rows());
    let options = crash::Options {
        n: Some(amount.crashes),
        timings: Pace::Default,
        beside: amount.crashes,
        program: program.clone(),
    };
    println!("| leader: crash, ms | {} |", crash::measure(place, &options).await?.takeover);
    let options = cost::Options { names: amount.names.clone(), replicas: vec![3], seconds: amount.seconds };
    for cell in cost::measure(place, &options).await?.cells {
        println!("| leader: {} names, statements/s | {:.1} | | | | |", cell.names, cell.all);
    }
    Ok(())
}
