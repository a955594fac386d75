//! The replica of forge-runtime, a program of a workspace of its own: its sqlx 0.8 cannot be linked beside sqlx 0.9.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// Builds it, with the profile of this program.
pub fn build() -> anyhow::Result<()> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("forge/Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--manifest-path"]).arg(&manifest);
    cargo.args(if cfg!(debug_assertions) { &[][..] } else { &["--release"] });
    cargo.arg("--target-dir").arg(target()?);
    // What `cargo run` says about this package makes some of the dependencies, ring among them, build again.
    let variables = std::env::vars_os().filter_map(|(variable, _)| variable.into_string().ok());
    for variable in variables.filter(|variable| is_of_this_package(variable)) {
        cargo.env_remove(variable);
    }
    let status = cargo.status().context("cannot run cargo")?;
    ensure!(
        status.success(),
        "cargo does not build the replica of forge-runtime: try `cargo build --manifest-path {}`",
        manifest.display()
    );
    Ok(())
}

/// The program, built or not.
pub fn program() -> anyhow::Result<PathBuf> {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    Ok(target()?.join(profile).join("forge-replica"))
}

fn is_of_this_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Beside what is built of this workspace.
fn target() -> anyhow::Result<PathBuf> {
    let me = std::env::current_exe()?;
    let target = me.parent().and_then(Path::parent).context("this program is in a target directory")?;
    Ok(target.join("forge"))
}
