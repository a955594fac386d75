//! Many replicas at one instant.

use std::time::Duration;

use leader::WorkName;
use leader::test_util::{SessionId, Store, store};
use leader_tests::conformance::settle;
use leader_tests::harness::{Sql, TestDatabase};
use tokio::time::Instant;

use crate::{NAME, scenarios};

scenarios!(every database: one_of_sixty_four_candidates_wins);

/// Round after round, each with exactly one winner.
async fn one_of_sixty_four_candidates_wins<DB: Sql>() {
    const LONG: Duration = Duration::from_mins(10);
    const WATCHED: Duration = Duration::from_secs(8);

    // The handshakes of as many connections would starve others.
    let database = TestDatabase::create_alone(DB::KIND).await;
    let names = [WorkName::new(NAME).unwrap()];
    let mut candidates = Vec::new();
    for number in 1..=64 {
        let session = SessionId::new(number);
        let mut candidate = store(&database.url, "default", "candidate", LONG).unwrap();
        settle(async || candidate.prepare(true).await).await;
        settle(async || candidate.ensure(&names).await).await;
        settle(async || candidate.open(session).await).await;
        candidates.push((session, candidate));
    }
    let until = Instant::now() + WATCHED;
    let (mut rounds, mut last) = (0, 0);
    while Instant::now() < until {
        let claims = candidates.iter_mut().map(|(session, candidate)| {
            let (session, names) = (*session, &names);
            async move { settle(async || candidate.claim(session, names, &[]).await).await }
        });
        let answers = futures::future::join_all(claims).await;
        let winners: Vec<usize> = (0..answers.len()).filter(|at| !answers[*at].is_empty()).collect();
        let [winner] = winners.as_slice() else { panic!("{} winners in round {rounds}", winners.len()) };
        let won = &answers[*winner];
        assert!(won[0].1.get() > last, "terms grow");
        last = won[0].1.get();
        let (session, candidate) = &mut candidates[*winner];
        assert_eq!(settle(async || candidate.release(*session, won).await).await, []);
        rounds += 1;
    }
    assert!(rounds >= 20, "only {rounds} rounds");
}
