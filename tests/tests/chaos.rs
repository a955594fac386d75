//! A short run of random faults on every database at once; `./test.sh chaos` has longer ones.

use std::time::Duration;

use leader_tests::chaos::{Options, Report, run_all};
use leader_tests::harness::{Kind, any_seed};

#[tokio::test(flavor = "multi_thread")]
async fn no_promise_is_broken_by_known_faults() {
    // Its twenty seconds hold faults of 24 kinds and more, a failover and tables that are dropped among them, and of twelve
    // where there is no server.
    let reports = no_promise_is_broken(4212).await;
    assert!(reports.iter().all(|report| report.faults.len() >= 12), "draw another one: {reports:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_promise_is_broken_by_any_faults() {
    no_promise_is_broken(any_seed()).await;
}

async fn no_promise_is_broken(seed: u64) -> Vec<Report> {
    println!("LEADER_TEST_SEED={seed}");
    let program = env!("CARGO_BIN_EXE_replica").into();
    let options = Options { program, seed, length: Duration::from_secs(20) };
    let reports = run_all(&options, &Kind::ALL).await.expect("a directory for logs");
    for report in &reports {
        println!("{report}");
    }
    for report in &reports {
        assert!(report.is_good(), "{report}");
    }
    reports
}
