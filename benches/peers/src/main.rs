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

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::{Parser, Subcommand, ValueEnum};
use leader_benches::figures::{cost, crash, handover};
use leader_benches::place::{Choice, Database, Place};
use leader_benches::replicas::{Pace, Program};
use leader_benches::report;
use leader_benches::stats::{Summary, short};

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
        /// A page whose part for peers is replaced
        #[arg(long, value_name = "FILE")]
        into: Option<PathBuf>,
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
        Command::All { peers, out, into, quick, program } => {
            let peers = if peers.is_empty() { Peer::value_variants().to_vec() } else { peers };
            let amount = if quick { Amount::quick() } else { Amount::full() };
            let (table, failed) = all(&peers, out.as_deref(), &program, &amount).await?;
            if let Some(page) = into {
                report::rewrite(&page, "peers", &table)?;
            }
            ensure!(failed == 0, "{failed} could not be measured");
            Ok(())
        }
    }
}

/// A table of all, printed as it grows, and how many could not be measured.
async fn all(
    peers: &[Peer],
    out: Option<&Path>,
    program: &Program,
    amount: &Amount,
) -> anyhow::Result<(String, usize)> {
    let place = Place::open(&Choice { database: Database::Postgres, database_url: None }).await?;
    let head = format!("{}\n\n| | {} |\n| --- | {} |\n", place.settings, Summary::HEAD, Summary::RULE);
    let (mut table, mut failed) = (head + &ours(&place, program, amount).await?, 0);
    print!("{table}");
    for peer in peers {
        match measure(*peer, &place, amount).await {
            Ok(figures) => {
                print!("{figures}");
                table += &figures.to_string();
                if let Some(out) = out {
                    std::fs::create_dir_all(out)?;
                    let file = out.join(format!("{}.json", peer.word()));
                    std::fs::write(file, serde_json::to_string_pretty(&figures)?)?;
                }
            }
            Err(error) => {
                failed += 1;
                eprintln!("error: {}: {error:#}", peer.word());
            }
        }
    }
    Ok((table, failed))
}

/// The rows of `leader`, by its own benches on the same server.
async fn ours(place: &Place, program: &Program, amount: &Amount) -> anyhow::Result<String> {
    let options = handover::Options { n: usize::try_from(amount.handovers)?, replicas: 2, names: 64 };
    let figure = handover::measure(place, &options).await?;
    let mut rows = format!("| leader: handover, ms | {} |\n{}", figure.handover, figure.floor.rows());
    let options = crash::Options {
        n: Some(amount.crashes),
        timings: Pace::Default,
        beside: amount.crashes,
        program: program.clone(),
    };
    let takeover = crash::measure(place, &options).await?.takeover;
    writeln!(rows, "| leader: crash, ms | {takeover} |")?;
    let options = cost::Options { names: amount.names.clone(), replicas: vec![3], seconds: amount.seconds };
    for cell in cost::measure(place, &options).await?.cells {
        writeln!(rows, "| leader: {} names, statements/s | {} | | | | |", cell.names, short(cell.all))?;
    }
    Ok(rows)
}
