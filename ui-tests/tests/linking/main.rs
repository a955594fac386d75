//! Registration across crates: the programs of `linking/`, built and run.

#![cfg(target_os = "linux")]

mod linkers;
mod workspace;

use std::process::Command;

use linkers::link;
use workspace::Workspace;

/// A profile: its name, the level of optimisation, and the kind of LTO, which all dependencies take part in.
const PROFILES: [(&str, u8, Option<&str>); 4] =
    [("dev", 0, None), ("release", 3, None), ("thin LTO", 3, Some("thin")), ("fat LTO", 3, Some("fat"))];

/// Whatever is optimised away, and whoever links.
#[test]
fn the_works_of_a_crate_that_is_named_are_kept() {
    let workspace = Workspace::get();
    workspace.touch("app/src/bin/gathered.rs");
    for (profile, level, lto) in PROFILES {
        for units in [1, 16] {
            let case = format!("{profile}, codegen units {units}");
            let mut cargo = workspace.cargo("rustc", "app", "gathered");
            for package in ["", "package.leader."] {
                cargo.arg("--config").arg(format!("profile.dev.{package}opt-level={level}"));
                cargo.arg("--config").arg(format!("profile.dev.{package}codegen-units={units}"));
            }
            let flags = lto.map_or(vec![], |kind| vec!["-C".to_owned(), format!("lto={kind}")]);
            for (linker, program) in link(cargo, &flags, &workspace.folder(&case)) {
                let said = output(&mut Command::new(program));
                assert_eq!(sorted(&said), ["a work of another kind", "mail", "sweep"], "{case}, {linker}");
            }
        }
    }
}

#[test]
fn the_works_of_a_crate_that_is_named_run() {
    assert_eq!(sorted(&said_by("named")), ["mail of jobs", "sweep of jobs"]);
}

#[test]
fn two_versions_of_leader_keep_their_works_apart() {
    let workspace = Workspace::get();
    workspace.touch("both/src/main.rs");
    let cargo = workspace.cargo("rustc", "both", "both");
    for (linker, program) in link(cargo, &[], &workspace.folder("two versions")) {
        let said = output(&mut Command::new(program));
        let expected =
            ["archive of later", "here", "here too", "mail of jobs", "mail of later", "sweep of jobs"];
        assert_eq!(sorted(&said), expected, "{linker}");
    }
}

#[test]
fn the_works_of_a_crate_that_nobody_names_are_missed() {
    assert_eq!(
        said_by("unnamed"),
        "2 faults in the registered works:
  `expect` at app/src/bin/unnamed.rs:5 names the work `mail`, which is not registered
  `expect` at app/src/bin/unnamed.rs:5 names the work `sweep`, which is not registered
if that is a surprise: the linker drops a crate that nobody names, and `use that_crate as _;` keeps it
"
    );
}

#[test]
fn a_start_with_nothing_registered_says_what_may_be_behind_it() {
    assert_eq!(
        said_by("unasked"),
        " WARN leader::elector: no work is registered here, so nothing is campaigned for; if that is a surprise: \
         the linker drops a crate that nobody names, and `use that_crate as _;` keeps it instance=replica\n"
    );
}

#[test]
fn faults_of_all_crates_are_reported_at_once() {
    let long = "n".repeat(192);
    assert_eq!(
        said_by("clashing"),
        format!(
            "15 faults in the registered works:
  the name \"\" in `except` at app/src/bin/clashing.rs:32 cannot be used: a name cannot be empty
  the name \" \" in `only` at app/src/bin/clashing.rs:31 cannot be used: a name cannot be blank
  `expect` at app/src/bin/clashing.rs:28, app/src/bin/clashing.rs:29 names the work `gone`, which is not registered
  `except` at app/src/bin/clashing.rs:32 names the work `gone`, which is not registered
  the work `janitor` is registered 2 times: app/src/bin/clashing.rs:25, app/src/bin/clashing.rs:26; rename all but one
  the work `mail` is registered 2 times: jobs/src/lib.rs:5 in `jobs`, reports/src/lib.rs:5 in `reports`; rename all but one
  the name \"{long}\" in `except` at app/src/bin/clashing.rs:32 cannot be used: a name has at most 191 bytes, and this one has 192
  the name \"padded \" of the work at app/src/bin/clashing.rs:27 cannot be used: a name cannot begin or end with a blank
  the name \"padded \" in `expect` at app/src/bin/clashing.rs:28 cannot be used: a name cannot begin or end with a blank
  the work `report` is registered 2 times: app/src/bin/clashing.rs:24, reports/src/lib.rs:8 in `reports`; rename all but one
  the work `solo` at app/src/bin/clashing.rs:18 in `clashing` is registered and `expect` does not name it; add it there, or leave the work out
  the work `sweep` at app/src/bin/clashing.rs:14 in `clashing::inner` takes `State<&str>`; give it with `.state(…)` on the builder
  the work `sweep` at app/src/bin/clashing.rs:14 in `clashing::inner` takes `State<u8>`; give it with `.state(…)` on the builder
  the work `sweep` is registered 3 times: app/src/bin/clashing.rs:8 in `clashing`, app/src/bin/clashing.rs:14 in `clashing::inner`, jobs/src/lib.rs:13 in `jobs::night`; rename all but one
  `only` at app/src/bin/clashing.rs:30, app/src/bin/clashing.rs:31 names the work `swep`, which is not registered
if that is a surprise: the linker drops a crate that nobody names, and `use that_crate as _;` keeps it
"
        )
    );
}

/// What the program of `linking/app` prints.
fn said_by(program: &str) -> String {
    output(&mut Workspace::get().cargo("run", "app", program))
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("it can be run");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    lines
}
