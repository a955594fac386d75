//! Many processes on one SQLite file, which has one writer at a time.

use std::collections::HashMap;
use std::time::Duration;

use leader_tests::harness::{Kind, Launch, Replica, TestDatabase, now_ms, soak};

use crate::{assert_in_order, replica, started, written};

const WRITERS: usize = 4;

/// Four that write as fast as they can, and four that want their names. `LEADER_TEST_SOAK` says for how many seconds.
#[tokio::test]
async fn eight_processes_with_four_writers_lose_nothing() {
    let how_long = soak().unwrap_or(Duration::from_secs(20));
    let database = TestDatabase::create_alone(Kind::Sqlite).await;
    let names: Vec<_> = (0..WRITERS).map(|writer| format!("work {writer}")).collect();
    let writer = |name: &String| replica(&database).work(name, "ledger").every(Duration::ZERO).start();
    let writers: Vec<_> = names.iter().map(writer).collect();
    for writer in &writers {
        writer.wait("its election", |event| event.is("elected")).await;
    }
    let standby =
        |_| names.iter().fold(replica(&database), |launch, name| launch.work(name, "ledger")).start();
    let standbys: Vec<_> = (0..WRITERS).map(standby).collect();
    for standby in &standbys {
        started(standby).await;
    }
    tokio::time::sleep(how_long).await;
    let all: Vec<_> = writers.iter().chain(&standbys).collect();
    assert_nothing_lost(&database, &all).await;
    assert!(standbys.iter().all(|standby| !standby.events().iter().any(|event| event.is("elected"))));
    assert_each_wrote(&database, writers.len()).await;
}

/// One that opens its next transaction as soon as it has committed the last, and others that need the file for nothing
/// but their renewals.
#[tokio::test]
async fn transactions_back_to_back_starve_no_other_process() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let others: Vec<_> =
        (0..3).map(|other| replica(&database).work(&format!("other {other}"), "idle").start()).collect();
    for other in &others {
        other.wait("its election", |event| event.is("elected")).await;
    }
    let writer = replica(&database).work("writer", "slow-ledger").every(Launch::TIMINGS.renew / 2).start();
    let elected = writer.wait("its election", |event| event.is("elected")).await;
    written(&database, &elected).await;
    tokio::time::sleep(2 * Launch::TIMINGS.lease).await;
    let all: Vec<_> = others.iter().chain([&writer]).collect();
    assert_nothing_lost(&database, &all).await;
}

/// It cannot be otherwise: the renewal needs the write lock too. Whoever reads the log learns why.
#[tokio::test]
async fn a_transaction_past_the_deadline_costs_every_lease_and_the_log_says_whose() {
    let database = TestDatabase::create_to_wait(Kind::Sqlite).await;
    let other = replica(&database).work("other", "idle").start();
    let first = other.wait("its election", |event| event.is("elected")).await;
    let long = replica(&database).work("long", "slow-ledger").every(2 * Launch::TIMINGS.lease).start();
    long.wait("its election", |event| event.is("elected")).await;
    for (replica, holder) in
        [(&long, "a transaction of this process".to_owned()), (&other, format!("process {}", long.pid()))]
    {
        replica.wait("the loss", |event| event.is("lost")).await;
        let lines = replica.log();
        let told: Vec<_> = lines.lines().filter(|line| line.contains("waits for the write lock")).collect();
        assert!(told.len() == 1 && told[0].contains(&holder), "held by {holder}: {replica}");
    }
    other.wait("the next tenure", |event| event.is("elected") && event.term != first.term).await;
    assert_eq!(database.ledger().await, [], "nothing of that transaction is there");
}

async fn assert_nothing_lost(database: &TestDatabase, replicas: &[&Replica]) {
    let now = now_ms();
    for replica in replicas {
        let over = replica.events().iter().any(|event| event.is("lost") || event.is("stepped_down"));
        // A standby has nothing to lose but its session.
        assert!(!over && !replica.log().contains("session lost"), "{replica}");
        assert_eq!(replica.exited(), None, "{replica}");
    }
    let sessions = database.sessions().await;
    assert_eq!(sessions.len(), replicas.len(), "{sessions:?}");
    assert!(sessions.iter().all(|session| session.expires_at_ms > now), "{sessions:?}");
}

/// Each of them wrote a good share, under the one term that it ever had.
async fn assert_each_wrote(database: &TestDatabase, writers: usize) {
    let mut rows: HashMap<String, Vec<_>> = HashMap::new();
    for row in database.ledger().await {
        rows.entry(row.name.clone()).or_default().push(row);
    }
    let counts: Vec<_> = rows.values().map(Vec::len).collect();
    assert_eq!(counts.len(), writers, "{counts:?}");
    let mean = counts.iter().sum::<usize>() / writers;
    assert!(mean > 100 && counts.iter().all(|count| count * 10 > mean), "rows of each writer: {counts:?}");
    for rows in rows.values() {
        assert_in_order(rows);
        assert_eq!(rows.first().map(|row| row.term), rows.last().map(|row| row.term));
    }
}
