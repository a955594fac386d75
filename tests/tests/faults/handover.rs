//! A leader is told to stop, and the next one leads as soon as the design says.

use std::time::Duration;

use leader_tests::harness::{Event, Kind, Sql, TestDatabase, first};

use crate::{replica, scenarios};

scenarios!(every database: a_stop_hands_over_within_the_bound);

/// Promise 3. The machine may be busy: it is half of the handovers that must be within the bound.
async fn a_stop_hands_over_within_the_bound<DB: Sql>() {
    const REPLICAS: usize = 10;
    let bound = Duration::from_millis(match DB::KIND {
        Kind::Postgres => 100,
        Kind::MySql => 350,
        Kind::Sqlite => 50,
    });

    let database = TestDatabase::create_alone(DB::KIND).await;
    let start = |number| replica(&database.url, &format!("replica {number}"), "idle").start();
    let mut replicas: Vec<_> = (0..REPLICAS).map(start).collect();
    for replica in &replicas {
        replica.wait("the start", |event| event.is("started")).await;
    }
    let (mut term, mut took) = (0, Vec::new());
    let mut given_back: Option<Event> = None;
    while !replicas.is_empty() {
        let running: Vec<_> = replicas.iter().collect();
        let next = |event: &Event| event.is("elected") && event.term() > term;
        let (leads, elected) = first(&running, "a leader", next).await;
        if let Some(before) = given_back {
            took.push(elected.at_ms - before.at_ms);
        }
        term = elected.term();
        let leader = replicas.remove(leads);
        leader.term();
        given_back = Some(leader.wait("the stepping down", |event| event.is("stepped_down")).await);
        assert_eq!(leader.wait_exit().await, Some(0), "{leader}");
    }
    took.sort_unstable();
    let median = took[took.len() / 2];
    assert!(Duration::from_millis(median.unsigned_abs()) <= bound, "{took:?} ms");
}
