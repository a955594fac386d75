//! The work moves by itself: when its leader stops, and when it dies.

use std::time::Duration;

use leader_tests::harness::{Kind, Launch, Replica, TestDatabase, first, now_ms};

use crate::{
    assert_in_order, assert_within, default_timings, replica, scenarios, side_by_side, started, written,
};

scenarios!(every database: the_work_moves, equal_names_in_two_namespaces);

async fn the_work_moves(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let launch = |instance| replica(&database).work("mail", "ledger").instance(instance).start();
    let mut replicas = [launch("one"), launch("two"), launch("three")].map(Some);

    let (leader, elected) = next_leader(&replicas, 0).await;
    for (index, replica) in replicas.iter().flatten().enumerate() {
        replica.wait("the start", |event| event.is("started")).await;
        assert!(index == leader || !replica.events().iter().any(|event| event.is("elected")), "two leaders");
    }
    written(&database, &elected).await;

    // It is told to stop: it gives the name back.
    let stopping = replicas[leader].take().unwrap();
    stopping.term();
    let stepped_down = stopping.wait("the stepping down", |event| event.is("stepped_down")).await;
    assert_eq!(stepped_down.term, elected.term);
    assert_eq!(stepped_down.name.as_deref(), Some("mail"));
    assert_eq!(stepped_down.reason.as_deref(), Some("shutting down"));
    assert_eq!(stepped_down.trace_id, elected.trace_id);
    assert_eq!(stopping.wait_exit().await, Some(0), "{stopping}");
    assert_eq!(stopping.events().last().unwrap().event, "stopped");

    let (leader, second) = next_leader(&replicas, elected.term()).await;
    assert_within(
        Duration::from_secs(1),
        stepped_down.at_ms,
        second.at_ms,
        &format!("from one tenure to the next, {stopping}"),
    );
    written(&database, &second).await;

    // It dies: its lease runs out.
    let dying = replicas[leader].take().unwrap();
    let killed = now_ms();
    dying.kill();
    assert_eq!(dying.wait_exit().await, None);

    let (_, third) = next_leader(&replicas, second.term()).await;
    let bound = Launch::TIMINGS.lease + Duration::from_millis(500);
    assert_within(bound, killed, third.at_ms, &format!("from the death of a leader to the next, {dying}"));
    written(&database, &third).await;

    let ledger = database.ledger().await;
    assert_in_order(&ledger);
    for tenure in [&elected, &second, &third] {
        assert!(ledger.iter().any(|row| row.term == tenure.term() && row.instance == tenure.instance));
    }
}

/// Side by side, as nearly all of it is waiting.
#[tokio::test]
async fn a_crash_is_over_within_the_default_lease_on_every_database() {
    let [postgres, mysql, sqlite] = side_by_side().await;
    tokio::join!(crash(&postgres), crash(&mysql), crash(&sqlite));
}

async fn crash(database: &TestDatabase) {
    /// Design, promise 3: the lease and 0.3 s. And what a busy machine may be late.
    const BOUND: Duration = Duration::from_secs(16);

    let launch = || default_timings(database).work("mail", "ledger").start();
    let leader = launch();
    let elected = leader.wait("its election", |event| event.is("elected")).await;
    let standby = launch();
    started(&standby).await;
    written(database, &elected).await;
    let killed = now_ms();
    leader.kill();
    let next = standby.wait("the successor", |event| event.is("elected")).await;
    assert_within(BOUND, killed, next.at_ms, &format!("from the death of a leader to the next, {standby}"));
    written(database, &next).await;
}

async fn equal_names_in_two_namespaces(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let launch = |namespace| {
        let launch = replica(&database).flag("--namespace", namespace).instance(namespace);
        launch.work("mail", "idle").work("reports", "idle").start()
    };
    let replicas = [launch("blue"), launch("green")];
    for replica in &replicas {
        for name in ["mail", "reports"] {
            replica.wait(&format!("the election to {name}"), |event| event.is_of("elected", name)).await;
        }
    }
    // All four at the same time: none has stepped down.
    for replica in &replicas {
        assert!(
            !replica.events().iter().any(|event| event.is("stepped_down") || event.is("lost")),
            "{replica}"
        );
    }
    let held: Vec<_> = database.names().await.into_iter().filter(|name| name.session_id.is_some()).collect();
    let held: Vec<_> = held.iter().map(|name| (name.namespace.as_str(), name.name.as_str())).collect();
    assert_eq!(held, [("blue", "mail"), ("blue", "reports"), ("green", "mail"), ("green", "reports")]);
}

/// The first election to a term above this one, and the index of the replica.
async fn next_leader(replicas: &[Option<Replica>], term: i64) -> (usize, leader_tests::harness::Event) {
    let running: Vec<_> =
        replicas.iter().enumerate().filter_map(|(at, replica)| Some((at, replica.as_ref()?))).collect();
    let (at, replicas): (Vec<_>, Vec<_>) = running.into_iter().unzip();
    let (index, event) =
        first(&replicas, "the next leader", |event| event.is("elected") && event.term() > term).await;
    (at[index], event)
}
