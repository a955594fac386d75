//! Takes the guards out of a copy of the workspace, one at a time, and runs the test that must notice.
//!
//! `./test.sh mutants [NAME…]` runs those whose name contains one of the words, or all. It takes a minute for each.

mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::table::{MUTANTS, Mutant};

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |mutant: &&Mutant| words.is_empty() || words.iter().any(|word| mutant.name.contains(word));
    let wanted: Vec<&Mutant> = MUTANTS.iter().filter(wanted).collect();
    ensure!(!wanted.is_empty(), "no mutant is called {words:?}");

    let copy = Copy::make()?;
    let mut sound = BTreeSet::new();
    let (mut survived, mut untold) = (0, 0);
    for mutant in wanted {
        let verdict = match copy.verdict(mutant, &mut sound) {
            Ok(true) => "found".to_owned(),
            Ok(false) => {
                survived += 1;
                "SURVIVED".to_owned()
            }
            Err(error) => {
                untold += 1;
                format!("UNTOLD: {error:#}")
            }
        };
        println!("{:<44} {verdict}", mutant.name);
    }
    println!("{survived} survived, of {untold} nothing can be told");
    Ok(if survived + untold == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a package of the workspace")
}

/// A copy of the workspace with a target folder of its own, kept from run to run: most of it is built once.
struct Copy {
    source: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn make() -> Result<Self> {
        let folder = workspace().join("target/mutants");
        let copy = Self { source: folder.join("source"), target: folder.join("target") };
        let listed = Command::new("git")
            .args(["ls-files", "-co", "--exclude-standard", "-z"])
            .current_dir(workspace())
            .output()
            .context("`git ls-files` lists the sources")?;
        ensure!(listed.status.success(), "`git ls-files` lists the sources");
        for file in String::from_utf8(listed.stdout)?.split_terminator('\0') {
            copy.restore(file)?;
        }
        Ok(copy)
    }

    /// Writes only what differs: cargo goes by the time of a file.
    fn restore(&self, file: &str) -> Result<()> {
        let (from, to) = (workspace().join(file), self.source.join(file));
        let Ok(text) = fs::read(&from) else { return Ok(()) };
        if fs::read(&to).is_ok_and(|there| there == text) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().expect("a folder"))?;
        fs::write(to, text).with_context(|| format!("copying {file}"))
    }

    /// Whether the test notices. `sound` are the tests that are known to pass without any mutant: one that fails with the
    /// guard in its place notices nothing.
    fn verdict(&self, mutant: &Mutant, sound: &mut BTreeSet<&'static [&'static str]>) -> Result<bool> {
        if !sound.contains(mutant.test) {
            ensure!(!self.test(mutant)?, "{:?} fails without any mutant", mutant.test);
            sound.insert(mutant.test);
        }
        let path = self.source.join(mutant.file);
        let text = fs::read_to_string(&path)?;
        fs::write(&path, mutant.of(&text)?)?;
        let found = self.test(mutant);
        fs::write(&path, text)?;
        found
    }

    fn test(&self, mutant: &Mutant) -> Result<bool> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(&self.source).env("CARGO_TARGET_DIR", &self.target).stdin(Stdio::null());
        // The same few crates again and again, whatever `test.sh` says of what is built once.
        cargo.env("CARGO_INCREMENTAL", "1");
        // A guard that is gone leaves names that nobody uses.
        cargo.env("RUSTFLAGS", "--cap-lints=warn").arg("test").args(mutant.test);
        let output = cargo.output().context("cargo runs")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(said.contains("running "), "it does not compile:\n{complaint}");
        ensure!(!said.contains("\nrunning 0 tests\n"), "no test is called {:?}", mutant.test);
        Ok(said.contains("test result: FAILED"))
    }
}

impl Mutant {
    fn of(&self, text: &str) -> Result<String> {
        let times = text.matches(self.guard).count();
        ensure!(times == 1, "the guard stands {times} times in {}", self.file);
        Ok(text.replacen(self.guard, self.without, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guard_is_where_the_table_says() {
        for mutant in MUTANTS {
            let text = fs::read_to_string(workspace().join(mutant.file)).expect(mutant.file);
            let changed = mutant.of(&text).unwrap_or_else(|error| panic!("{}: {error}", mutant.name));
            assert_ne!(changed, text, "{}", mutant.name);
        }
    }

    #[test]
    fn every_mutant_is_documented_with_its_test() {
        let page = fs::read_to_string(workspace().join("docs/faults.md")).expect("the page");
        for mutant in MUTANTS {
            let filter = mutant.test.last().expect("a filter").trim_end_matches(':');
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", mutant.name)));
            assert!(row.is_some_and(|row| row.contains(filter)), "{}: {row:?}", mutant.name);
        }
    }

    #[test]
    fn every_test_of_the_table_exists() {
        for mutant in MUTANTS {
            let filter = mutant.test.last().expect("a filter");
            let last = filter
                .trim_end_matches("::")
                .rsplit("::")
                .find(|part| !["postgres", "mysql", "sqlite", "memory"].contains(part));
            let function = last.unwrap_or("conformance");
            let known = sources().iter().any(|text| text.contains(function));
            assert!(known, "{}: no test is called {function}", mutant.name);
        }
    }

    /// The sources of every test, and not of the table that names them.
    fn sources() -> Vec<String> {
        let mut texts = Vec::new();
        let mut folders = vec![workspace().join("tests"), workspace().join("leader/src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("mutants/table.rs") {
                    texts.push(path.display().to_string());
                    texts.push(fs::read_to_string(path).expect("a source"));
                }
            }
        }
        texts
    }
}
