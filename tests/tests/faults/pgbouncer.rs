//! PgBouncer in transaction mode between everything and its database.

use std::time::Duration;

use leader::test_util::{AnyStore, store};
use leader::{Ending, EventKind, TransactionError};
use leader_tests::conformance::{self, Bench};
use leader_tests::harness::local::{Events, Puppet};
use leader_tests::harness::{Kind, PgBouncer, Sql, TestDatabase};
use sqlx::Postgres;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::{NAME, TIMINGS, elector, lead, replica};

async fn pgbouncer() -> &'static PgBouncer {
    static SHARED: OnceCell<PgBouncer> = OnceCell::const_new();
    SHARED.get_or_init(PgBouncer::before_the_shared_server).await
}

/// A database, and its URL by way of the pooler.
async fn pooled() -> (TestDatabase, String) {
    let database = TestDatabase::create_to_wait(Kind::Postgres).await;
    let url = pgbouncer().await.url(&database);
    (database, url)
}

struct Pooled {
    url: String,
    _database: TestDatabase,
}

impl Bench for Pooled {
    fn store(&self, namespace: &str, lease: Duration) -> AnyStore {
        store(&self.url, namespace, "conformance", lease).expect("a good URL")
    }
}

mod conforms {
    use super::*;

    macro_rules! case {
        // Nothing delivers a LISTEN here; `standbys_look` is about that.
        (a_release_is_noticed_by_standbys) => {};
        ($name:ident) => {
            #[tokio::test]
            async fn $name() {
                let (_database, url) = pooled().await;
                conformance::$name(&Pooled { url, _database }).await;
            }
        };
    }
    leader_tests::conformance_cases!(case);
}

/// Fenced transactions and renewals share the connections of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_are_fenced() {
    let (database, url) = pooled().await;
    let led = lead(&url, "first").await;
    let pool = Postgres::pool_to(&url, 4);
    let mut connection = pool.acquire().await.unwrap();
    Postgres::run(&mut connection, "CREATE TABLE written (what BIGINT)").await.unwrap();
    drop(connection);
    let until = Instant::now() + TIMINGS.lease * 2;
    let write = async || {
        let mut commits = 0;
        while Instant::now() < until {
            let mut tx = led.tenure.begin(&pool).await.unwrap();
            Postgres::run(&mut tx, "INSERT INTO written VALUES (1)").await.unwrap();
            tx.commit().await.unwrap();
            commits += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        commits
    };
    let (one, other) = tokio::join!(write(), write());
    assert_eq!(database.number("SELECT count(*) FROM written").await, one + other);
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);

    assert_eq!(database.delete_sessions_of("first").await, 1);
    database.execute("UPDATE leader_names SET session_id = NULL").await;
    let refused = led.tenure.begin(&pool).await.map(drop);
    let lost = |ended: &leader::Ended| ended.ending() == Ending::LeaseLost;
    assert!(matches!(&refused, Err(TransactionError::Ended(ended)) if lost(ended)), "{refused:?}");
    // What the fence sets for a transaction stays on no connection of the server.
    let left =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'leader:%' AND state = 'idle'";
    assert_eq!(database.number(left).await, 0);
}

/// Nothing wakes a standby here. It looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standbys_look() {
    let (_database, url) = pooled().await;
    let led = lead(&url, "first").await;
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let standby = elector(&url, "second", &events).work(NAME, puppet.work()).start().await.unwrap();
    led.running.shutdown().await.unwrap();
    let released = Instant::now();
    let next = puppet.tenure().await;
    let after = released.elapsed();
    assert!(next.term() > led.tenure.term());
    assert!(after < TIMINGS.campaign * 3, "elected {after:?} after the release");
    standby.shutdown().await.unwrap();
}

/// A LISTEN would stay on a connection of the server, and what it delivers there is for somebody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_would_listen_confuses_nobody() {
    let (_database, url) = pooled().await;
    let busy = (0..4).map(|_| async {
        let pool = Postgres::pool_to(&url, 1);
        loop {
            let mut connection = pool.acquire().await.unwrap();
            let answer = Postgres::number(&mut connection, "SELECT 1::bigint FROM pg_sleep(0.003)").await;
            assert_eq!(answer.expect("an answer to what was asked"), 1);
        }
    });
    let starts = async {
        for _ in 0..6 {
            let led = lead(&url, "first").await;
            tokio::time::sleep(TIMINGS.renew).await;
            led.running.shutdown().await.unwrap();
        }
    };
    tokio::select! {
        () = starts => {}
        _ = futures::future::join_all(busy) => unreachable!("they go on"),
    }
}

#[tokio::test]
async fn that_nothing_wakes_standbys_is_logged_once() {
    let (_database, url) = pooled().await;
    let replica = replica(&url, "first", "idle").start();
    replica.wait("its election", |event| event.is("elected")).await;
    // Time to try again to listen.
    tokio::time::sleep(Duration::from_secs(6)).await;
    replica.term();
    assert_eq!(replica.wait_exit().await, Some(0), "{replica}");
    assert_eq!(replica.log().matches("LISTEN does not deliver here").count(), 1, "{replica}");
}
