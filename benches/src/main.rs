//! Measures `leader`. One figure a subcommand; `all` measures everything and keeps it, `report` writes it down.
//!
//! ```console
//! $ cargo run --release -p leader-benches -- handover --database postgres
//! $ cargo run --release -p leader-benches -- all --out target/figures
//! ```

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use leader_benches::place::Choice;
use leader_benches::record::Task;
use leader_benches::replicas::Program;
use leader_benches::{all, report};

/// Measures `leader` on real databases with durable settings
#[derive(Parser)]
#[command(name = "leader-benches")]
struct Flags {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    choice: Choice,
    /// Prints the figure as JSON
    #[arg(long, global = true)]
    json: bool,
    /// As little as shows that it works: the numbers mean nothing
    #[arg(long, global = true)]
    quick: bool,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Measure(Task),
    /// Measures everything on every database
    All {
        /// Where to keep the figures, one JSON file each
        #[arg(long, value_name = "DIRECTORY")]
        out: PathBuf,
        #[command(flatten)]
        program: Program,
    },
    /// Writes kept figures down as tables, and draws them
    Report(report::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Flags { command, choice, json, quick } = Flags::parse();
    match command {
        Command::Measure(task) => {
            let record = task.measure(&choice, quick).await?;
            if json {
                println!("{}", serde_json::to_string_pretty(&record)?);
            } else {
                print!("{record}");
            }
            Ok(())
        }
        Command::All { out, program } => all::measure(&out, &program, quick).await,
        Command::Report(options) => report::write(&options),
    }
}
