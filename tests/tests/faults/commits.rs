//! Commits of fenced transactions whose answer is lost: nothing is reported that is not so.

use leader::{EventKind, TransactionError};
use leader_tests::harness::{Fate, Sql, Statement, TestDatabase, To};

use crate::{behind_a_proxy, lead, scenarios};

scenarios!(servers:
    the_answer_is_lost,
    the_request_is_lost,
    the_connection_breaks_before_the_answer,
    the_connection_breaks_before_the_request,
);
// MariaDB checks nothing at the commit.
scenarios!(postgres: the_commit_is_refused, the_commit_is_refused_by_a_trigger);

async fn the_answer_is_lost<DB: Sql>() {
    let (error, written) = commit::<DB>(To::Client, Fate::Swallow).await;
    assert!(matches!(error, TransactionError::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(written, 1);
}

async fn the_request_is_lost<DB: Sql>() {
    let (error, written) = commit::<DB>(To::Server, Fate::Swallow).await;
    assert!(matches!(error, TransactionError::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(written, 0);
}

async fn the_connection_breaks_before_the_answer<DB: Sql>() {
    let (error, written) = commit::<DB>(To::Client, Fate::Cut).await;
    assert!(matches!(error, TransactionError::Sqlx(_)), "{error:?}");
    assert_eq!(written, 1);
}

async fn the_connection_breaks_before_the_request<DB: Sql>() {
    let (error, written) = commit::<DB>(To::Server, Fate::Cut).await;
    assert!(matches!(error, TransactionError::Sqlx(_)), "{error:?}");
    assert_eq!(written, 0);
}

/// Returns what the work is told of its commit, and how many rows it has written.
async fn commit<DB: Sql>(to: To, fate: Fate) -> (TransactionError, i64) {
    let (database, proxy) = behind_a_proxy::<DB>().await;
    // The elector's own connection goes to the server directly.
    let led = lead(&database.url, "first").await;
    led.puppet.stay();
    let pool = DB::pool_to(proxy.url(), 1);
    let mut connection = pool.acquire().await.unwrap();
    DB::run(&mut connection, "CREATE TABLE written (what BIGINT)").await.unwrap();
    drop(connection);
    let mut tx = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut tx, "INSERT INTO written VALUES (1)").await.unwrap();
    proxy.next(to, Statement::Commit, fate);
    let robbed = async {
        proxy.wait("the commit", |judged| judged.fate == fate).await;
        // Whoever waits for an answer that does not come is told when the lease is lost.
        if fate == Fate::Swallow {
            assert_eq!(database.delete_sessions_of("first").await, 1);
        }
    };
    let (told, ()) = tokio::join!(tx.commit(), robbed);
    led.puppet.obey();
    let error = told.expect_err("no answer, no success");
    assert_eq!(led.events.count(EventKind::Overrun), 0, "{:?}", led.events);
    (error, database.number("SELECT count(*) FROM written").await)
}

/// A constraint that is checked at the commit.
async fn the_commit_is_refused<DB: Sql>() {
    let (database, proxy) = behind_a_proxy::<DB>().await;
    let led = lead(&database.url, "first").await;
    let pool = DB::pool_to(proxy.url(), 1);
    let mut connection = pool.acquire().await.unwrap();
    let table = "CREATE TABLE written (what BIGINT UNIQUE DEFERRABLE INITIALLY DEFERRED)";
    DB::run(&mut connection, table).await.unwrap();
    drop(connection);
    let mut tx = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut tx, "INSERT INTO written VALUES (1), (1)").await.unwrap();
    let refused = tx.commit().await.expect_err("it is no set");
    assert!(matches!(refused, TransactionError::Sqlx(_)), "{refused:?}");
    assert_eq!(database.number("SELECT count(*) FROM written").await, 0);

    let mut tx = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut tx, "INSERT INTO written VALUES (1), (2)").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM written").await, 2);
    led.running.shutdown().await.unwrap();
}

/// With the codes that a mark is refused with, which is no reason to run the transaction again.
async fn the_commit_is_refused_by_a_trigger<DB: Sql>() {
    let database = TestDatabase::create(DB::KIND).await;
    let led = lead(&database.url, "first").await;
    let pool = DB::pool_to(&database.url, 1);
    for (number, fails) in ["'no number'::text::int", "current_setting('is.unknown')"].iter().enumerate() {
        let table = format!("refused{number}");
        let mut connection = pool.acquire().await.unwrap();
        let create = format!(
            "CREATE TABLE {table} (what BIGINT); \
             CREATE FUNCTION {table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM {fails}; RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER {table} AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION {table}()"
        );
        DB::run(&mut connection, &create).await.unwrap();
        drop(connection);
        let mut tx = led.tenure.begin(&pool).await.unwrap();
        DB::run(&mut tx, &format!("INSERT INTO {table} VALUES (1)")).await.unwrap();
        let refused = tx.commit().await.expect_err("the trigger fails");
        assert!(matches!(refused, TransactionError::Sqlx(_)), "{fails}: {refused:?}");
        assert_eq!(database.number(&format!("SELECT count(*) FROM {table}")).await, 0);
    }
}
