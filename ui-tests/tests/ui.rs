//! What the attribute accepts, and what it says to everything else.
//!
//! One misuse a file, named after it. `fail/` holds the cases whose text is ours; `fail-rustc/` those whose text is the
//! compiler's, which moves with it and is therefore compared on one version only. `TRYBUILD=overwrite` writes anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler whose words stand in `fail-rustc/`.
const PINNED: &str = "rustc 1.95.";

#[test]
fn attribute() {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    cases.compile_fail("fail/*.rs");
    let version = rustc_version();
    if version.starts_with(PINNED) {
        cases.compile_fail("fail-rustc/*.rs");
    } else {
        eprintln!("fail-rustc/ is skipped: it is pinned to {PINNED}x, and this is {version}");
    }
}

/// A misuse is reported once. The cases made for several problems say in their first line how many there are.
#[test]
fn one_misuse_is_one_error() {
    let mut wrong = Vec::new();
    for case in refusals() {
        let expected = expected_errors(&fs::read_to_string(&case).unwrap());
        let errors = errors(&case).len();
        if errors != expected {
            wrong.push(format!("{}: {errors} errors instead of {expected}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each `// error: …` in the documentation of the attribute is the error of a case.
#[test]
fn the_manual_quotes_the_compiler() {
    let said: BTreeSet<String> = refusals().iter().flat_map(|case| errors(case)).collect();
    let manual = include_str!("../../leader-macros/src/work.md");
    let quotes: Vec<&str> =
        manual.lines().filter_map(|line| line.trim().strip_prefix("// error: ")).collect();
    assert!(quotes.len() > 20, "{quotes:#?}");
    let wrong: Vec<_> = quotes.iter().filter(|quote| !said.contains(**quote)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The sources of the cases that must not compile.
fn refusals() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["fail", "fail-rustc"].map(|folder| fs::read_dir(here.join(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// What the compiler says to a case, without the codes.
fn errors(case: &Path) -> Vec<String> {
    let said = fs::read_to_string(case.with_extension("stderr")).unwrap();
    let errors = said.lines().filter(|line| line.starts_with("error"));
    errors.map(|line| line.split_once(": ").expect("a message").1.to_owned()).collect()
}

fn expected_errors(source: &str) -> usize {
    let first = source.lines().next().unwrap_or_default();
    first.strip_prefix("// errors: ").map_or(1, |number| number.parse().expect("a number of errors"))
}

fn rustc_version() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc runs");
    String::from_utf8(output.stdout).expect("its version is text")
}
