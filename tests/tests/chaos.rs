//! A short run of random faults on every database at once; `./test.sh chaos` has longer ones.

use std::collections::BTreeSet;
use std::time::Duration;

use leader_tests::chaos::schedule::{Schedule, Timed};
use leader_tests::chaos::{Asked, Conditions, Options, Report, run_all};
use leader_tests::harness::{Kind, any_seed};

const LENGTH: Duration = Duration::from_secs(20);

/// Of 24 kinds and more, or of ten where there is no server; most of them find something to break.
#[tokio::test(flavor = "multi_thread")]
async fn no_promise_is_broken_by_known_faults() {
    const SEED: u64 = 72_976;

    let reports = no_promise_is_broken(SEED).await;
    for (report, kind) in reports.iter().zip(Kind::ALL) {
        let Conditions { route, .. } = Conditions::random(kind, SEED, Asked::default());
        let drawn = Schedule::random(kind, route, SEED, LENGTH);
        let drawn: BTreeSet<_> = drawn.faults.iter().map(Timed::label).collect();
        let enough = if kind == Kind::Sqlite { 10 } else { 24 };
        assert!(drawn.len() >= enough, "draw another one than {drawn:?}");
        assert!(report.faults.len() > drawn.len() / 2, "of {drawn:?}: {report}");
    }
    for fault in ["failover", "tables dropped"] {
        assert!(reports[0].faults.contains_key(fault), "no {fault}: {}", reports[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_promise_is_broken_by_any_faults() {
    no_promise_is_broken(any_seed()).await;
}

async fn no_promise_is_broken(seed: u64) -> Vec<Report> {
    println!("LEADER_TEST_SEED={seed}");
    let program = env!("CARGO_BIN_EXE_replica").into();
    let options = Options { program, seed, length: LENGTH, asked: Asked::default() };
    let reports = run_all(&options, &Kind::ALL).await.expect("a directory for logs");
    for report in &reports {
        println!("{report}");
    }
    for report in &reports {
        assert!(report.is_good(), "{report}");
    }
    reports
}
