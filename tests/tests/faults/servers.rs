//! Servers that are restarted, stopped for a while, or read-only for a while.

use std::time::{Duration, SystemTime};

use leader::{EventKind, TransactionError};
use leader_tests::harness::checks::assert_in_order;
use leader_tests::harness::local::Led;
use leader_tests::harness::{
    Kind, Launch, PATIENCE, Replica, Sql, TestDatabase, eventually, first, now_ms, soak,
};

use crate::{PATIENT, TIMINGS, behind_a_proxy, lead, lead_with, replica, replica_by_default, scenarios};

scenarios!(servers:
    a_restart_costs_no_lease,
    a_leader_soon_after_a_long_stop,
    connections_that_are_read_only_are_left,
    a_server_that_is_read_only_for_a_while,
);

async fn a_restart_costs_no_lease<DB: Sql>() {
    let (database, server) = TestDatabase::create_to_wait_on_own_server(DB::KIND).await;
    let led = lead_with(PATIENT, &database.url, "first").await;
    for gently in [false, true] {
        if gently {
            server.shut_down();
        } else {
            server.kill();
        }
        server.start().await;
        renewed(&led).await;
        led.tenure.check().unwrap();
        let pool = DB::pool(&database, 1);
        led.tenure.begin(&pool).await.unwrap().commit().await.unwrap();
    }
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    led.running.shutdown().await.unwrap();
}

/// Down for four leases, under three replicas. None of them dies of it. `LEADER_TEST_SOAK` says for how many seconds if that
/// is longer, and the timings are the defaults then.
async fn a_leader_soon_after_a_long_stop<DB: Sql>() {
    // Longer than the default deadline too.
    const STOPPED: Duration = Launch::TIMINGS.lease.saturating_mul(4);

    let (stopped, defaults) = soak().map_or((STOPPED, false), |soak| (soak.max(STOPPED), true));
    // What a standby waits between two looks, its jitter, and an attempt or two that meet a server on its way up.
    let bound = if defaults { 7_000 } else { 5_000 };
    let (database, server) = TestDatabase::create_to_wait_on_own_server(DB::KIND).await;
    let replicas = ["first", "second", "third"].map(|instance| {
        let launch = if defaults { replica_by_default } else { replica };
        launch(&database.url, instance, "ledger").start()
    });
    let replicas: Vec<&Replica> = replicas.iter().collect();
    for replica in &replicas {
        replica.wait("the start", |event| event.is("started")).await;
    }
    let (leads, elected) = first(&replicas, "a leader", |event| event.is("elected")).await;
    let wrote = async || (!database.ledger().await.is_empty()).then_some(());
    eventually("a row in the ledger", PATIENCE, wrote).await;

    server.kill();
    tokio::time::sleep(stopped).await;
    assert!(replicas[leads].events().iter().any(|event| event.is("lost")), "{}", replicas[leads]);
    server.start().await;
    let answers = now_ms();
    let next = |event: &leader_tests::harness::Event| event.is("elected") && event.term() > elected.term();
    let (_, next) = first(&replicas, "a leader", next).await;
    let after = next.at_ms - answers;
    assert!(after < bound, "{after} ms from the first answer of the server to a leader");

    let wrote = async || database.ledger().await.iter().any(|row| row.term == next.term()).then_some(());
    eventually("a row of the new term", PATIENCE, wrote).await;
    assert_in_order(&database.ledger().await);
    for replica in replicas {
        assert!(replica.exited().is_none(), "{replica}");
    }
}

/// As a pool of the old primary's would be: what is dialled anew can write.
async fn connections_that_are_read_only_are_left<DB: Sql>() {
    let (database, proxy) = behind_a_proxy::<DB>().await;
    let led = lead(proxy.url(), "first").await;
    let dialled = proxy.connections();
    for statement in read_only_by_now(DB::KIND) {
        database.execute(statement).await;
    }
    tokio::time::sleep(TIMINGS.lease).await;
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    assert!(proxy.connections() > dialled, "on the old connection");
    led.running.shutdown().await.unwrap();
}

/// Has the server refuse writes of sessions as read-only on the connections that there are.
fn read_only_by_now(kind: Kind) -> [&'static str; 2] {
    match kind {
        Kind::Postgres => [
            "CREATE TABLE switch AS SELECT clock_timestamp() AS at; GRANT SELECT ON switch TO PUBLIC",
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF (SELECT a.backend_start < s.at FROM pg_stat_activity a, switch s WHERE a.pid = pg_backend_pid()) \
             THEN RAISE EXCEPTION 'read-only' USING ERRCODE = '25006'; END IF; RETURN NULL; END $$; \
             CREATE TRIGGER refuse AFTER UPDATE ON leader_sessions FOR EACH ROW EXECUTE FUNCTION refuse()",
        ],
        _ => [
            "CREATE TABLE switch AS SELECT max(id) AS at FROM information_schema.processlist",
            "CREATE TRIGGER refuse AFTER UPDATE ON leader_sessions FOR EACH ROW BEGIN \
             IF CONNECTION_ID() <= (SELECT at FROM switch) THEN \
             SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'read-only'; END IF; END",
        ],
    }
}

/// For less than a deadline: the tenure goes on, and what its transactions wrote meanwhile is refused.
async fn a_server_that_is_read_only_for_a_while<DB: Sql>() {
    const A_WHILE: Duration = Duration::from_secs(5);
    let (off, on) = match DB::KIND {
        Kind::Postgres => (
            "ALTER SYSTEM SET default_transaction_read_only = on",
            "ALTER SYSTEM SET default_transaction_read_only = off",
        ),
        _ => ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"),
    };

    let (database, server) = TestDatabase::create_to_wait_on_own_server(DB::KIND).await;
    let led = lead_with(PATIENT, &database.url, "first").await;
    let pool = DB::pool(&database, 2);
    let mut connection = pool.acquire().await.unwrap();
    DB::run(&mut connection, "CREATE TABLE written (what BIGINT)").await.unwrap();
    drop(connection);
    let set = async |statement: &str| {
        server.administer(statement).await.unwrap();
        if DB::KIND == Kind::Postgres {
            server.administer("SELECT pg_reload_conf()").await.unwrap();
        }
    };
    let insert = "INSERT INTO written VALUES (1)";

    let mut before = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut before, insert).await.unwrap();
    set(off).await;
    // PostgreSQL's processes hear of it one by one.
    let heard = async || {
        let mut connection = pool.acquire().await.unwrap();
        let shown = match DB::KIND {
            Kind::Postgres => "SELECT (current_setting('default_transaction_read_only') = 'on')::int::bigint",
            _ => "SELECT @@GLOBAL.read_only",
        };
        (DB::number(&mut connection, shown).await.unwrap() == 1).then_some(())
    };
    eventually("a server that is read-only", PATIENCE, heard).await;
    let begun = tokio::time::Instant::now();
    // MariaDB refuses the commit of what was written before; PostgreSQL lets it finish what it began.
    let committed = before.commit().await;
    let kept = i64::from(committed.is_ok());
    assert_eq!(kept == 1, DB::KIND == Kind::Postgres, "{committed:?}");
    let refused = async {
        let mut tx = led.tenure.begin(&pool).await?;
        DB::run(&mut tx, insert).await?;
        tx.commit().await
    };
    let refused = refused.await;
    assert!(matches!(refused, Err(TransactionError::Sqlx(_))), "{refused:?}");
    tokio::time::sleep_until(begun + A_WHILE).await;
    set(on).await;

    renewed(&led).await;
    led.tenure.check().unwrap();
    let mut after = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut after, insert).await.unwrap();
    after.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM written").await, kept + 1);
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    led.running.shutdown().await.unwrap();
}

/// Waits for a renewal from now on.
async fn renewed(led: &Led) {
    let now = SystemTime::now();
    let renewed = async || led.running.status().last_renewal.filter(|last| *last > now);
    eventually("a renewal", PATIENCE, renewed).await;
}
