//! Many replicas, and many names.

use std::time::Duration;

use leader::Timings;
use leader_tests::harness::{Kind, Launch, PATIENCE, Replica, Server, TestDatabase, first};

use crate::{default_timings, replica, scenarios, started};

mod replicas {
    use super::{at_once_on_an_empty_database, scenarios};

    scenarios!(every database: at_once_on_an_empty_database);
}

mod names {
    use super::{cost_no_more_statements, scenarios};

    scenarios!(servers: cost_no_more_statements);
}

/// On a busy machine a start takes longer than the attempt that is usual here.
const PATIENT: Timings = Timings {
    lease: Duration::from_secs(8),
    deadline: Duration::from_secs(6),
    attempt: Some(Duration::from_secs(5)),
    ..Launch::TIMINGS
};

async fn at_once_on_an_empty_database(kind: Kind) {
    let database = TestDatabase::create_alone(kind).await;
    let replica = default_timings(&database).timings(&PATIENT).work("mail", "idle");
    let replicas: Vec<_> = (0..20).map(|_| replica.start()).collect();
    for replica in &replicas {
        started(replica).await;
    }
    let all: Vec<_> = replicas.iter().collect();
    first(&all, "a leader", |event| event.is("elected")).await;
    // Each has looked again by then.
    tokio::time::sleep(2 * Launch::TIMINGS.campaign).await;
    let elected = all.iter().filter(|replica| replica.events().iter().any(|event| event.is("elected")));
    assert_eq!(elected.count(), 1);
    assert!(all.iter().all(|replica| replica.exited().is_none()));
}

async fn cost_no_more_statements(kind: Kind) {
    let (database, server) = TestDatabase::create_on_own_server(kind).await;
    let one = idle_statements(&database, &server, 1).await;
    let thousand = idle_statements(&database, &server, 1_000).await;
    // A fifth more, and one that falls into the window or does not.
    assert!(thousand * 5 <= one * 6 + 5, "{one} statements with one name, {thousand} with a thousand");
    assert!(one > 0, "nothing was counted");
}

/// How many statements the server is sent in four seconds by one replica that leads this many names.
async fn idle_statements(database: &TestDatabase, server: &Server, names: usize) -> u64 {
    let mut launch = replica(database).flag("--namespace", &format!("{names} names"));
    for name in 0..names {
        launch = launch.work(&format!("work {name}"), "idle");
    }
    let replica = launch.start();
    all_elected(&replica, names).await;
    tokio::time::sleep(2 * Launch::TIMINGS.campaign).await;

    let (first, second) = (server.statements().await, server.statements().await);
    let own = second - first;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let sent = server.statements().await - second - own;
    replica.term();
    assert_eq!(replica.wait_exit().await, Some(0), "{replica}");
    sent
}

async fn all_elected(replica: &Replica, names: usize) {
    let elected = || replica.events().iter().filter(|event| event.is("elected")).count();
    leader_tests::harness::eventually(&format!("{names} elections"), PATIENCE, async || {
        (elected() == names).then_some(())
    })
    .await;
}
