//! One program, linked by everything that links here.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::output;

/// The linkers that the compiler driver knows by name, and what each of them leaves in a program.
const LINKERS: [(&str, &str); 3] =
    [("gold", ".note.gnu.gold-version"), ("lld", "Linker: LLD"), ("mold", "(compatible with GNU ld)")];
/// Leaves nothing.
const BFD: &str = "bfd";

/// Has `cargo rustc` link a program with these flags: by the default linker, and by every other one that is installed.
/// Returns who linked, and what came of it.
pub(crate) fn link(mut cargo: Command, flags: &[String], folder: &Path) -> Vec<(&'static str, PathBuf)> {
    const LINK: &str = concat!("linker=", env!("CARGO_MANIFEST_DIR"), "/linking/with-each-linker.sh");

    let linkers = installed();
    cargo.env("LINKERS", linkers.join(" ")).env("LINKED", folder);
    output(cargo.args(["--", "-C", LINK]).args(flags));
    let default = folder.join("default");
    let mut programs = vec![(linker_of(&default), default)];
    for linker in linkers {
        let program = folder.join(linker);
        assert_eq!(linker_of(&program), *linker, "another linker did it: {}", program.display());
        programs.push((linker, program));
    }
    programs
}

/// The default links too, whether it is among them or comes with the compiler.
fn installed() -> &'static [&'static str] {
    static INSTALLED: OnceLock<Vec<&str>> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let path = std::env::var_os("PATH").expect("a path");
        let is_installed = |linker: &&str| {
            std::env::split_paths(&path).any(|folder| folder.join(format!("ld.{linker}")).exists())
        };
        let known = LINKERS.iter().map(|(linker, _)| *linker).chain([BFD]);
        let (installed, missing): (Vec<_>, Vec<_>) = known.partition(is_installed);
        let _ = writeln!(
            io::stderr(), // `eprintln` is not shown when a test passes.
            "linkers beside the default: {installed:?}; skipped, as they are not installed: {missing:?}"
        );
        installed
    })
}

fn linker_of(program: &Path) -> &'static str {
    let bytes = fs::read(program).expect("it was linked");
    let text = String::from_utf8_lossy(&bytes);
    LINKERS.iter().find(|(_, mark)| text.contains(mark)).map_or(BFD, |(linker, _)| linker)
}
