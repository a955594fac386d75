//! Random faults against replicas, and a check of what they did.
//!
//! Exit status: 0 when nothing was found, 1 when something was, 2 for malformed flags.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use leader_tests::chaos::{Asked, Conditions, Options, Report, Route, reports_as_json, run_all};
use leader_tests::harness::{Isolation, Kind, any_seed};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let flags = Flags::parse();
    let seed = flags.seed.unwrap_or_else(any_seed);
    eprintln!("seed {seed}");
    let program = std::env::current_exe()?.with_file_name("replica");
    ensure!(program.exists(), "build the program `replica` first: `cargo build -p leader-tests --bins`");
    let asked = Asked { isolation: flags.isolation, route: flags.route };
    let options = Options { program, seed, length: Duration::from_secs(flags.seconds), asked };
    let kinds = flags.database.kinds();
    for kind in &kinds {
        eprintln!("{kind}: {}", Conditions::random(*kind, seed, asked));
    }
    let reports = run_all(&options, &kinds).await.context("logs cannot be kept")?;
    if flags.json {
        println!("{}", reports_as_json(&reports));
    } else {
        for report in &reports {
            println!("{report}");
        }
    }
    Ok(if reports.iter().all(Report::is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Breaks three replicas and their database at random, and finds out whether a promise was broken.
#[derive(Parser)]
#[command(name = "chaos")]
struct Flags {
    /// What conditions and faults are drawn from: the same seed, the same faults at the same times [default:
    /// `LEADER_TEST_SEED`, or by chance]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long faults come, before ten seconds without any
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u64,
    /// On which database; all of them run side by side
    #[arg(long, value_enum, default_value_t = Databases::All)]
    database: Databases,
    /// The level of transactions that ask for none; SQLite has no such default [default: drawn]
    #[arg(long, value_enum, value_name = "LEVEL")]
    isolation: Option<Isolation>,
    /// How replicas come to PostgreSQL [default: drawn]
    #[arg(long, value_enum)]
    route: Option<Route>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Databases {
    Postgres,
    Mysql,
    Sqlite,
    All,
}

impl Databases {
    fn kinds(self) -> Vec<Kind> {
        match self {
            Self::Postgres => vec![Kind::Postgres],
            Self::Mysql => vec![Kind::MySql],
            Self::Sqlite => vec![Kind::Sqlite],
            Self::All => Kind::ALL.to_vec(),
        }
    }
}
