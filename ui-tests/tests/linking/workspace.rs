//! The copy of `linking/` that is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Written at the first call.
    pub(crate) fn get() -> &'static Self {
        static WORKSPACE: OnceLock<Workspace> = OnceLock::new();
        WORKSPACE.get_or_init(Self::write)
    }

    fn write() -> Self {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
        let leader = ours.parent().expect("the workspace");
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("linking");
        copy(&ours.join("linking"), &root, &|text| {
            text.replace("../../leader", leader.join("leader").to_str().expect("UTF-8"))
        });
        fs::copy(leader.join("Cargo.lock"), root.join("Cargo.lock")).expect("the lock file");
        write_next_version(leader, &root.join("next"));
        Self { root }
    }

    /// A command of cargo on one program.
    ///
    /// Dependencies are compiled once for all profiles: into objects and, for LTO, bitcode beside them.
    pub(crate) fn cargo(&self, subcommand: &str, package: &str, program: &str) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root).args([subcommand, "--offline", "--quiet"]);
        cargo.args(["--target-dir", "target", "--package", package, "--bin", program]);
        cargo.env("RUSTFLAGS", "-C embed-bitcode=yes").env_remove("CARGO_ENCODED_RUSTFLAGS");
        cargo
    }

    /// Has a program built again: cargo does not know which linkers there are.
    pub(crate) fn touch(&self, source: &str) {
        let source = fs::File::options().write(true).open(self.root.join(source)).expect("a source");
        source.set_modified(SystemTime::now()).expect("its time");
    }

    /// A new folder with nothing in it.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.root.join("linked").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }
}

/// A version of `leader` that is not compatible with this one, from the same sources.
fn write_next_version(leader: &Path, next: &Path) {
    const THIS: &str = env!("CARGO_PKG_VERSION");
    const NEXT: &str = "99.0.0";

    for package in ["leader", "leader-macros"] {
        // As a unit test of the slice demands with a new version.
        copy(&leader.join(package), &next.join(package), &|text| {
            text.replace("LEADER_WORKS_", "LEADER_WORKS_NEXT_")
        });
    }
    let manifest = fs::read_to_string(leader.join("Cargo.toml")).expect("the manifest");
    let manifest: String = manifest
        .lines()
        .map(|line| match line.split(' ').next() {
            Some("members") => "members = [\"leader\", \"leader-macros\"]\n".to_owned(),
            Some("default-members") => String::new(),
            _ => format!("{}\n", line.replace(THIS, NEXT)),
        })
        .collect();
    write(&next.join("Cargo.toml"), &manifest);
}

fn copy(from: &Path, to: &Path, edit: &dyn Fn(&str) -> String) {
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target, edit);
        } else {
            write(&target, &edit(&fs::read_to_string(&path).expect("text")));
        }
    }
}

/// Leaves alone what is so already: cargo goes by times.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|present| present == text) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}
