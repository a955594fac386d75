//! Benches that nobody runs rot: each figure is measured here with as little as shows that it works, and the numbers
//! mean nothing.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program, and returns what it printed.
fn run(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_leader-benches")).args(arguments).output().expect("it can be run");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{arguments:?}: {status}\n{stderr}");
    String::from_utf8(stdout).expect("text")
}

#[test]
fn every_figure_is_measured_and_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let figures = directory.path().to_str().expect("a plain path");
    // The tests of the workspace have built it; alone, the program builds it itself.
    let replica = Path::new(env!("CARGO_BIN_EXE_leader-benches")).with_file_name("replica");
    let mut all = vec!["all", "--quick", "--out", figures];
    if replica.exists() {
        all.extend(["--replica", replica.to_str().expect("a plain path")]);
    }
    run(&all);

    let report = run(&["report", figures]);
    for figure in ["Handover", "Crash", "Cost", "Fence", "Names", "Build"] {
        assert!(report.contains(&format!("### {figure}")), "no {figure} in\n{report}");
    }
    for database in ["PostgreSQL", "MariaDB", "SQLite"] {
        assert_eq!(report.matches(&format!(", {database}\n")).count(), 5, "{database} in\n{report}");
    }
    assert!(report.contains("Not to be quoted"), "a quick run says so:\n{report}");
}

/// They are taken from what keepers log.
#[test]
fn the_phases_of_a_handover_are_measured() {
    let json = run(&["handover", "--database", "sqlite", "--quick", "--json"]);
    let record: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let phases = &record["figure"]["handover"]["phases"];
    let phases = phases.as_array().expect("the phases");
    assert_eq!(phases.len(), 6);
    // Of one whose claim was noted too late there are none.
    assert!(phases.iter().all(|phase| phase[1]["n"].as_u64() > Some(0)), "{phases:?}");
}

#[test]
fn a_single_figure_is_json_when_asked_for() {
    let json = run(&["fence", "--database", "sqlite", "--quick", "--json"]);
    let record: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(record["database"], "sqlite");
    assert_eq!(record["figure"]["fence"]["ratio"]["n"], 5);
}
