//! A leader is told to stop, and the next one leads as soon as the design says.

use leader_tests::harness::{Event, Kind, Sql, TestDatabase, now_ms};

use crate::{replica_by_default, scenarios};

scenarios!(every database: a_stop_hands_over_within_the_bound);

/// Promise 3, under the default timings. Of each pair one replica leads and the other waits; pairs do not know each other.
/// The machine may be busy, and its disk slow: it is half of the handovers that must be within the bound, and on top of that
/// comes what their two commits, of the release and of the claim, take here and now.
async fn a_stop_hands_over_within_the_bound<DB: Sql>() {
    const PAIRS: usize = 5;
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
    let pool = DB::pool(&database, 1);
    let mut connection = pool.acquire().await.unwrap();
    let begin = "CREATE TABLE floor (n BIGINT); INSERT INTO floor VALUES (0)";
    DB::run(&mut connection, begin).await.unwrap();
    let (mut took, mut commits) = (Vec::new(), Vec::new());
    // Backwards: who looks now and then has looked a moment ago, and not in a moment.
    for (leader, standby) in pairs.iter().rev() {
        let before = now_ms();
        DB::run(&mut connection, "UPDATE floor SET n = n + 1").await.unwrap();
        commits.push(now_ms() - before);
        leader.term();
        let given_back = leader.wait("the stepping down", |event| event.is("stepped_down")).await;
        let next = standby.wait("its election", elected).await;
        took.push(next.at_ms - given_back.at_ms);
        assert_eq!(leader.wait_exit().await, Some(0), "{leader}");
    }
    took.sort_unstable();
    commits.sort_unstable();
    assert!(took[0] >= 0, "elected beside the one before: {took:?} ms");
    let half = PAIRS / 2;
    assert!(took[half] <= bound + 2 * commits[half], "{took:?} ms, and a commit takes {commits:?} ms");
}
