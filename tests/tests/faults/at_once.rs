//! Many replicas at one instant.

use std::time::Duration;

use leader::test_util::{SessionId, Store, store};
use leader::{EventKind, WorkName};
use leader_tests::conformance::settle;
use leader_tests::harness::local::Events;
use leader_tests::harness::proxy::Judged;
use leader_tests::harness::{Kind, Proxy, Sql, Statement, TestDatabase, To};
use tokio::time::Instant;

use crate::{NAME, PATIENT, elector, scenarios};

scenarios!(every database: one_of_sixty_four_candidates_wins);
scenarios!(servers: fifty_replicas_do_not_fall_in_step);

/// Round after round, each with exactly one winner.
async fn one_of_sixty_four_candidates_wins<DB: Sql>() {
    const LONG: Duration = Duration::from_mins(10);
    const WATCHED: Duration = Duration::from_secs(4);

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
    assert!(rounds >= 10, "only {rounds} rounds");
}

/// A restart of their server ends all of their connections at one instant.
async fn fifty_replicas_do_not_fall_in_step<DB: Sql>() {
    const REPLICAS: u32 = 50;
    const WATCHED: Duration = Duration::from_secs(8);
    const A_WHILE: Duration = Duration::from_millis(100);

    let (database, server) = TestDatabase::create_on_own_server(DB::KIND).await;
    if DB::KIND == Kind::Postgres {
        server.trust_everybody().await;
    }
    let proxy = Proxy::to(&database).await;
    let events = Events::default();
    let mut electors = Vec::new();
    for number in 0..REPLICAS {
        let elector = elector(proxy.url(), &format!("replica-{number}"), &events).timings(PATIENT);
        let elector = elector.work(NAME, |tenure: leader::Tenure| async move {
            tenure.ended().await;
        });
        electors.push(elector.start().await.unwrap());
        // As replicas of a deployment do, they start one after the other.
        tokio::time::sleep(PATIENT.renew / REPLICAS).await;
    }
    let restarts = Instant::now();
    server.restart().await;
    tokio::time::sleep_until(restarts + WATCHED).await;

    let mut whiles = vec![0; usize::try_from(WATCHED.as_millis() / A_WHILE.as_millis()).unwrap()];
    for Judged { message, at, .. } in proxy.judged() {
        let statement = message.to == To::Server && !message.is_end && message.statement != Statement::None;
        if let Some(after) = at.checked_duration_since(restarts).filter(|_| statement) {
            let at = usize::try_from(after.as_millis() / A_WHILE.as_millis()).unwrap();
            whiles.get_mut(at).into_iter().for_each(|count| *count += 1);
        }
    }
    // While the server is away there are none.
    let busy: Vec<usize> = whiles.iter().copied().filter(|count| *count > 0).collect();
    let (most, all) = (busy.iter().max().unwrap(), busy.iter().sum::<usize>());
    assert!(most * busy.len() <= all * 5, "{most} statements in one while: {whiles:?}");
    assert_eq!(events.count(EventKind::Elected), 1, "{events:?}");
    assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
}
