//! What a cold build takes, beside one of sqlx alone.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::place::Database;
use crate::process;
use crate::stats::short;

/// How to measure it.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How often each is built; the fastest counts
    #[arg(long, default_value_t = 1)]
    pub runs: u32,
    /// Counts the crates and builds nothing
    #[arg(long)]
    pub crates_only: bool,
}

impl Options {
    /// As few as show that it works.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { crates_only: true, ..self }
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Build {
    /// Each database.
    pub rows: Vec<Row>,
}

/// A library that depends on nothing but `leader` or nothing but sqlx, each with one database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The database, a feature of both.
    pub database: Database,
    /// Of sqlx alone.
    pub sqlx: Taken,
    /// Of `leader`, sqlx included.
    pub leader: Taken,
}

/// What a build takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Taken {
    /// How many crates are compiled.
    pub crates: usize,
    /// Processor time in seconds, if it was built.
    pub cpu_seconds: Option<f64>,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| feature | sqlx: crates | CPU s | leader: crates | CPU s | ratio of CPU s |")?;
        writeln!(f, "| --- | ---: | ---: | ---: | ---: | ---: |")?;
        for Row { database, sqlx, leader } in &self.rows {
            let ratio = sqlx.cpu_seconds.zip(leader.cpu_seconds).map(|(sqlx, leader)| leader / sqlx);
            let ratio = ratio.map_or("–".to_owned(), short);
            writeln!(f, "| `{}` | {sqlx} | {leader} | {ratio} |", database.word())?;
        }
        Ok(())
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {}", self.crates, self.cpu_seconds.map_or("–".to_owned(), short))
    }
}

/// Measures it, with the versions of this workspace.
///
/// # Errors
///
/// When cargo does not build.
pub fn measure(options: &Options) -> anyhow::Result<Build> {
    let leader = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("leader");
    let rows = Database::ALL.map(|database| {
        let feature = database.word();
        // The features of sqlx that `leader` asks for.
        let sqlx = format!(
            r#"sqlx = {{ version = "0.9", default-features = false, features = ["runtime-tokio", "{feature}"] }}"#
        );
        let leader = format!(r#"leader = {{ path = '{}', features = ["{feature}"] }}"#, leader.display());
        Ok(Row { database, sqlx: take(&sqlx, options)?, leader: take(&leader, options)? })
    });
    Ok(Build { rows: rows.into_iter().collect::<anyhow::Result<_>>()? })
}

fn take(dependency: &str, options: &Options) -> anyhow::Result<Taken> {
    let mut taken = Taken { crates: 0, cpu_seconds: None };
    let runs = if options.crates_only { 0 } else { options.runs };
    let package = package(dependency)?;
    taken.crates = crates(package.path())?;
    for _ in 0..runs {
        let target = package.path().join("target");
        let before = process::cpu_of_children()?;
        let status = cargo(package.path(), &["build"]).arg("--target-dir").arg(&target).status()?;
        ensure!(status.success(), "cargo does not build `{dependency}`");
        let spent = process::cpu_of_children()?.saturating_sub(before).as_secs_f64();
        taken.cpu_seconds = Some(taken.cpu_seconds.map_or(spent, |least| least.min(spent)));
        std::fs::remove_dir_all(target)?;
    }
    Ok(taken)
}

/// An empty library with this one dependency.
fn package(dependency: &str) -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::Builder::new().prefix("leader-bench-").tempdir()?;
    let manifest = format!(
        "[package]\nname = \"cold\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{dependency}\n"
    );
    std::fs::write(directory.path().join("Cargo.toml"), manifest)?;
    std::fs::create_dir(directory.path().join("src"))?;
    std::fs::write(directory.path().join("src/lib.rs"), "")?;
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("Cargo.lock");
    std::fs::copy(&lock, directory.path().join("Cargo.lock"))
        .with_context(|| format!("cannot copy {}", lock.display()))?;
    Ok(directory)
}

fn crates(package: &Path) -> anyhow::Result<usize> {
    let tree = cargo(package, &["tree", "--prefix", "none", "--edges", "normal,build"]).output()?;
    ensure!(tree.status.success(), "cargo tells no tree: {}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout)?;
    let packages = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    let packages: BTreeSet<&str> = packages.filter(|line| !line.starts_with("cold ")).collect();
    Ok(packages.len())
}

fn cargo(package: &Path, arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments).args(["--quiet", "--offline"]).current_dir(package);
    // What somebody compiled before does not count.
    cargo.env_remove("RUSTC_WRAPPER").env_remove("CARGO_TARGET_DIR").stdin(Stdio::null());
    cargo
}
