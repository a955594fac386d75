//! What others take for handover, crash and idle replicas, on the server that `leader` is measured on in the same run.
//!
//! ```console
//! $ cargo run --release --features etcd,plots -- all --out target/peers
//! ```

mod advisory;
mod contend;
#[cfg(feature = "etcd")]
mod etcd;
mod forge;
mod measure;
mod members;
mod ours;
mod peer;
#[cfg(feature = "plots")]
mod plots;
mod rows;

use std::fmt::Write as _;
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::{Parser, Subcommand, ValueEnum};
use leader_benches::place::{Choice, Database, Place};
use leader_benches::replicas::Program;
use leader_benches::report::{self, Image};
use leader_benches::stats::Summary;

use measure::{Amount, Figures, measure};
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
        /// Where the plots go, below the page's directory if the page is to show them; they need the feature `plots`
        #[arg(long, value_name = "DIRECTORY")]
        plots: Option<PathBuf>,
        /// As little as shows that it works: the numbers mean nothing
        #[arg(long)]
        quick: bool,
        #[command(flatten)]
        program: Program,
    },
    /// Draws what `all` kept
    Draw {
        /// Where it was kept
        figures: PathBuf,
        /// Where the plots go; they need the feature `plots`
        plots: PathBuf,
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
        Command::Draw { figures, plots } => draw(&kept(&figures)?, &plots).map(drop),
        Command::All { peers, out, into, plots, quick, program } => {
            let peers = if peers.is_empty() { Peer::value_variants().to_vec() } else { peers };
            let amount = if quick { Amount::quick() } else { Amount::full() };
            let mut run = Run::new(out)?;
            run.measure(&peers, &program, &amount).await?;
            let images = plots.map_or(Ok(Vec::new()), |directory| draw(&run.figures, &directory))?;
            if let Some(page) = into {
                for image in images {
                    write!(run.table, "\n{}\n", image.shown_on(&page)?)?;
                }
                report::rewrite(&page, "peers", &run.table)?;
            }
            ensure!(run.failed == 0, "{} could not be measured", run.failed);
            Ok(())
        }
    }
}

/// What has been measured so far.
struct Run {
    /// Printed as it grows.
    table: String,
    figures: Vec<Figures>,
    /// How many could not be measured.
    failed: usize,
    out: Option<PathBuf>,
}

impl Run {
    fn new(out: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(out) = &out {
            std::fs::create_dir_all(out)?;
        }
        Ok(Self { table: String::new(), figures: Vec::new(), failed: 0, out })
    }

    /// Measures `leader` and these.
    async fn measure(&mut self, peers: &[Peer], program: &Program, amount: &Amount) -> anyhow::Result<()> {
        let place = Place::open(&Choice { database: Database::Postgres, database_url: None }).await?;
        self.print(&format!("{}\n\n| | {} |\n| --- | {} |\n", place.settings, Summary::HEAD, Summary::RULE));
        let (figures, floor) = ours::measure(&place, program, amount).await?;
        self.print(&floor.rows());
        self.keep(figures)?;
        for peer in peers {
            match measure(*peer, &place, amount).await {
                Ok(figures) => self.keep(figures)?,
                Err(error) => {
                    self.failed += 1;
                    eprintln!("error: {}: {error:#}", peer.word());
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, figures: Figures) -> anyhow::Result<()> {
        self.print(&figures.to_string());
        if let Some(out) = &self.out {
            let file = out.join(format!("{}.json", figures.whose));
            std::fs::write(file, serde_json::to_string_pretty(&figures)?)?;
        }
        self.figures.push(figures);
        Ok(())
    }

    fn print(&mut self, rows: &str) {
        print!("{rows}");
        self.table += rows;
    }
}

/// Those of `leader` and of each peer that was measured.
fn kept(directory: &Path) -> anyhow::Result<Vec<Figures>> {
    let whose = iter::once("leader".to_owned()).chain(Peer::value_variants().iter().map(|peer| peer.word()));
    let files = whose.map(|whose| directory.join(format!("{whose}.json"))).filter(|file| file.exists());
    files.map(|file| Ok(serde_json::from_slice(&std::fs::read(file)?)?)).collect()
}

#[cfg(feature = "plots")]
fn draw(figures: &[Figures], directory: &Path) -> anyhow::Result<Vec<Image>> {
    plots::draw(figures, directory)
}

#[cfg(not(feature = "plots"))]
fn draw(_: &[Figures], _: &Path) -> anyhow::Result<Vec<Image>> {
    anyhow::bail!("this program was built without the feature `plots`")
}
