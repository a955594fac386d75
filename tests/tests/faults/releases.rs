//! Releases that meet renewals or come from the past, and replicas that come back under the same name.

use std::time::Duration;

use leader::EventKind;
use leader::WorkName;
use leader::test_util::{AnyStore, SessionId, Store, store};
use leader_tests::conformance::settle;
use leader_tests::harness::proxy::Judged;
use leader_tests::harness::{Fate, Launch, PATIENCE, Sql, Statement, TestDatabase, To};
use tokio::time::Instant;

use crate::{NAME, TIMINGS, behind_a_proxy, lead, replica, scenarios};

scenarios!(servers: an_old_release_frees_nothing);
scenarios!(postgres: a_server_that_takes_no_more_notifications);
scenarios!(every database: releases_during_renewals, a_replica_that_comes_back_under_its_name);

/// A replica loses its lease while its release and all that it sent after it are on their way. They arrive when a replica
/// of the same name leads.
async fn an_old_release_frees_nothing<DB: Sql>() {
    let (database, proxy) = behind_a_proxy::<DB>().await;
    let old = lead(proxy.url(), "same").await;
    let until = proxy.connections();
    proxy.rule(move |message| {
        let old = message.connection > until || message.is(To::Server, Statement::Release);
        if old && message.to == To::Server { Fate::Hold } else { Fate::Pass }
    });
    let step_down = old.running.step_down(NAME);
    let held = |judged: &Judged| judged.fate == Fate::Hold && judged.message.statement == Statement::Release;
    let (_, held) =
        tokio::join!(tokio::time::timeout(TIMINGS.lease, step_down), proxy.wait("a release", held));

    let new = lead(&database.url, "same").await;
    assert!(new.tenure.term() > old.tenure.term());
    // It hears of nothing more, but for what it has sent.
    let last = proxy.connections();
    proxy.rule(move |message| if message.connection > last { Fate::Cut } else { Fate::Pass });
    let arrived = |judged: &Judged| judged.fate == Fate::Pass && judged.message == held.message;
    proxy.wait("the release to arrive", arrived).await;
    tokio::time::sleep(TIMINGS.lease).await;
    new.tenure.check().unwrap();
    assert_eq!(new.events.count(EventKind::Lost), 0, "{:?}", new.events);
    new.running.shutdown().await.unwrap();
}

/// Somebody has listened in one transaction for so long that the queue is full. Names are given back all the same.
async fn a_server_that_takes_no_more_notifications<DB: Sql>() {
    const FULL: &str = "CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'too many notifications in the NOTIFY queue'; END $$";

    let database = TestDatabase::create(DB::KIND).await;
    let path = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$";
    database.execute(path).await;
    database.execute(FULL).await;
    let first = lead(&database.url, "first").await;
    let before = first.tenure.term();
    tokio::time::timeout(PATIENCE, first.running.step_down(NAME)).await.expect("a release").unwrap();
    assert_eq!(database.names().await[0].session_id, None);
    first.running.shutdown().await.unwrap();
    let second = lead(&database.url, "second").await;
    assert!(second.tenure.term() > before);
    second.running.shutdown().await.unwrap();
    assert_eq!(database.sessions().await, []);
}

/// Whatever else its session does meanwhile, a name that was released is free.
async fn releases_during_renewals<DB: Sql>() {
    const LONG: Duration = Duration::from_mins(10);
    const WATCHED: Duration = Duration::from_secs(4);

    let database = TestDatabase::create(DB::KIND).await;
    let (name, session) = (WorkName::new(NAME).unwrap(), SessionId::new(1));
    let open = async || -> AnyStore {
        let mut opened = store(&database.url, "default", "first", LONG).unwrap();
        settle(async || opened.prepare(true).await).await;
        opened
    };
    let mut releasing = open().await;
    releasing.ensure(std::slice::from_ref(&name)).await.unwrap();
    releasing.open(session).await.unwrap();
    let renewals = (0..3).map(|_| async {
        let mut renewing = open().await;
        loop {
            let lives = settle(async || renewing.renew(session).await).await;
            assert!(lives.is_some(), "the session lives");
        }
    });
    let releases = async {
        let mut releases = 0;
        let until = Instant::now() + WATCHED;
        while Instant::now() < until {
            let names = std::slice::from_ref(&name);
            let held = settle(async || releasing.claim(session, names, &[]).await).await;
            assert_eq!(held.len(), 1, "it was free");
            let kept = settle(async || releasing.release(session, &held).await).await;
            assert_eq!(kept, [], "nobody has locked it");
            releases += 1;
        }
        releases
    };
    let releases = tokio::select! {
        releases = releases => releases,
        _ = futures::future::join_all(renewals) => unreachable!("they go on"),
    };
    assert!(releases > 50, "only {releases} releases");
    let free = "SELECT count(*) FROM leader_names WHERE session_id IS NULL";
    assert_eq!(database.number(free).await, 1);
}

/// Identity is the session's, not the name's of the replica: what a killed process held is not its successor's.
async fn a_replica_that_comes_back_under_its_name<DB: Sql>() {
    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let launch = replica(&database.url, "same", "ledger");
    let first = launch.start();
    let elected = first.wait("its election", |event| event.is("elected")).await;
    first.kill();
    first.wait_exit().await;
    let killed = leader_tests::harness::now_ms();
    let second = launch.start();
    let again = second.wait("the election", |event| event.is("elected")).await;
    assert!(again.term() > elected.term());
    let after = Duration::from_millis(u64::try_from(again.at_ms - killed).unwrap());
    assert!(after + Launch::TIMINGS.renew * 3 > Launch::TIMINGS.lease, "elected {after:?} after the kill");
    assert!(after < Launch::TIMINGS.lease + Duration::from_secs(2), "elected {after:?} after the kill");
    tokio::time::sleep(Launch::TIMINGS.lease).await;
    assert!(!second.events().iter().any(|event| event.is("lost")), "{second}");
}
