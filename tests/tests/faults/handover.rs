//! A leader is told to stop, and the next one leads as soon as the design says.

use std::time::Duration;

use leader_tests::harness::{Event, Kind, Sql, TestDatabase};

use crate::{replica_by_default, scenarios};

scenarios!(every database: a_stop_hands_over_within_the_bound);

/// Promise 3, under the default timings. Of each pair one replica leads and the other waits; pairs do not know each other.
/// The machine may be busy: it is half of the handovers that must be within the bound.
async fn a_stop_hands_over_within_the_bound<DB: Sql>() {
    const PAIRS: usize = 7;
    let bound = match DB::KIND {
        Kind::Postgres => 100,
        Kind::MySql => 350,
        Kind::Sqlite => 50,
    };

    let database = TestDatabase::create_alone(DB::KIND).await;
    let start = |pair: usize, instance| {
        let launch = replica_by_default(&database.url, instance, "idle");
        launch.flag("--namespace", &format!("pair {pair}")).start()
    };
    let elected = |event: &Event| event.is("elected");
    let mut pairs = Vec::new();
    for pair in 0..PAIRS {
        let leader = start(pair, "first");
        leader.wait("its election", elected).await;
        pairs.push((leader, start(pair, "second")));
    }
    for (_, standby) in &pairs {
        standby.wait("the start", |event| event.is("started")).await;
    }
    let mut took = Vec::new();
    // Backwards: who looks now and then has looked a moment ago, and not in a moment.
    for (leader, standby) in pairs.iter().rev() {
        leader.term();
        let given_back = leader.wait("the stepping down", |event| event.is("stepped_down")).await;
        let next = standby.wait("its election", elected).await;
        took.push(next.at_ms - given_back.at_ms);
        assert_eq!(leader.wait_exit().await, Some(0), "{leader}");
    }
    took.sort_unstable();
    assert!(
        Duration::from_millis(took[PAIRS / 2].unsigned_abs()) <= Duration::from_millis(bound),
        "{took:?} ms"
    );
}
