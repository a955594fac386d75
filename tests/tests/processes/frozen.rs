//! A replica that is frozen inside a fenced transaction holds its successor up for a while, and then has lost.

use std::time::Duration;

use leader_tests::harness::database::LedgerRow;
use leader_tests::harness::{Kind, Launch, PATIENCE, Replica, TestDatabase, eventually, now_ms};

use crate::{assert_in_order, assert_within, replica, scenarios, started, written};

// On SQLite a frozen writer blocks every writer of the file.
scenarios!(servers: its_transaction_never_commits);

/// What a busy machine may be late.
const LATE: Duration = Duration::from_millis(1_500);

async fn its_transaction_never_commits(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let slow =
        replica(&database).work("mail", "slow-ledger").every(Duration::from_secs(1)).instance("slow").start();
    let elected = slow.wait("its election", |event| event.is("elected")).await;
    written(&database, &elected).await;
    let next = replica(&database).work("mail", "ledger").instance("next").start();
    started(&next).await;

    let frozen = freeze_inside_a_transaction(&database, &slow).await;
    let successor = next.wait("the successor", |event| event.is("elected")).await;
    // Design, I8: 10 s, or the lease if that is shorter.
    assert_within(
        Launch::TIMINGS.lease + LATE,
        frozen,
        successor.at_ms,
        &format!("from the freeze to the successor, {next}"),
    );
    written(&database, &successor).await;

    let of_slow = async || -> Vec<LedgerRow> {
        let ledger = database.ledger().await;
        assert_in_order(&ledger);
        ledger.into_iter().filter(|row| row.instance == "slow").collect()
    };
    let before = of_slow().await;
    slow.wake();
    slow.wait("that it knows", |event| event.is("lost") || event.is("overrun")).await;
    if let Some(status) = slow.exited() {
        assert_eq!(status.code(), Some(70), "{slow}");
    }
    // Time enough for the commit that it was about to make: the successor writes ten more rows.
    let rows = database.ledger().await.len();
    let more = async || (database.ledger().await.len() >= rows + 10).then_some(());
    eventually("ten more rows", PATIENCE, more).await;
    assert_eq!(of_slow().await, before, "a row of a tenure that was over");
}

/// Returns when it was frozen.
async fn freeze_inside_a_transaction(database: &TestDatabase, slow: &Replica) -> i64 {
    let frozen = async || {
        let now = now_ms();
        slow.freeze();
        if database.idle_transactions().await > 0 {
            return Some(now);
        }
        slow.wake();
        None
    };
    eventually("a moment inside a transaction", PATIENCE, frozen).await
}
