//! What the attribute accepts, and what it says to everything else.
//!
//! One misuse a file, named after it. `fail/` holds the cases whose text is ours; `fail-rustc/` those whose text is the
//! compiler's, which moves with it and is therefore compared on one version only. `TRYBUILD=overwrite` writes anew.

use std::fs;
use std::path::Path;
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
    for folder in ["fail", "fail-rustc"] {
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
            let case = entry.unwrap().path();
            if case.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let expected = expected_errors(&fs::read_to_string(&case).unwrap());
            let said = fs::read_to_string(case.with_extension("stderr")).unwrap();
            let errors = said.lines().filter(|line| line.starts_with("error")).count();
            if errors != expected {
                wrong.push(format!("{}: {errors} errors instead of {expected}", case.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
