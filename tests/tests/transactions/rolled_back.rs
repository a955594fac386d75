//! Transactions that the database, or sqlx, has rolled back under their user: what is written in them afterwards is seen
//! by nobody, and their commit says so.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use leader::{Transaction, TransactionError};
use leader_tests::harness::Sql;
use sqlx::mysql::MySqlDatabaseError;

use crate::{Stage, row, scenarios};

scenarios!(mysql: a_deadlock);
scenarios!(postgres: a_statement_that_failed, a_statement_that_failed_elsewhere, a_commit_that_fails);
scenarios!(every database: a_rollback_of_the_works_own, a_nested_begin_dropped_half_way);

/// `InnoDB` rolls the lighter of two transactions that wait for each other back, the whole of it.
async fn a_deadlock<DB: Sql>(stage: Stage<DB>) {
    const DEADLOCK: u16 = 1213;

    let led = stage.lead().await;
    stage
        .run("CREATE TABLE pair (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO pair VALUES (1, 0), (2, 0)")
        .await;
    stage.run("CREATE TABLE ballast (v INT NOT NULL)").await;
    let pool = stage.pool(1);
    let mut tx = led.tenure.begin(&pool).await.unwrap();
    let before = DB::number(&mut tx, "SELECT CAST(connection_id() AS SIGNED)").await.unwrap();
    DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
    DB::run(&mut tx, "UPDATE pair SET v = 1 WHERE id = 1").await.unwrap();
    // Heavier, so that it is not the victim.
    let mut other = stage.eyes.begin().await.unwrap();
    DB::run(&mut other, "INSERT INTO ballast SELECT seq FROM seq_1_to_500").await.unwrap();
    DB::run(&mut other, "UPDATE pair SET v = 2 WHERE id = 2").await.unwrap();
    // Whoever comes second meets the deadlock.
    let (ours, theirs) = tokio::join!(
        DB::run(&mut tx, "UPDATE pair SET v = 1 WHERE id = 2"),
        DB::run(&mut other, "UPDATE pair SET v = 2 WHERE id = 1"),
    );
    theirs.unwrap();
    other.commit().await.unwrap();
    let ours = ours.unwrap_err();
    let error = ours.as_database_error().expect("an error of the server");
    assert_eq!(error.downcast_ref::<MySqlDatabaseError>().number(), DEADLOCK);

    // A work that carries on as if only the statement had failed.
    DB::run(&mut tx, &row(&led.tenure, 2)).await.unwrap();
    DB::run(&mut tx, "UPDATE pair SET v = 1").await.unwrap();
    assert_eq!(stage.written().await, 0, "written without a fence, and without a commit");
    let refused = tx.commit().await;
    assert!(matches!(refused, Err(TransactionError::RolledBack)), "{refused:?}");
    stage.is_free().await;
    assert_eq!(stage.written().await, 0);
    assert_eq!(stage.number("SELECT count(*) FROM pair WHERE v = 2").await, 2);

    // Its connection is gone, and so is what was set on it.
    let mut connection = pool.acquire().await.unwrap();
    assert_ne!(DB::number(&mut connection, "SELECT CAST(connection_id() AS SIGNED)").await.unwrap(), before);
    assert_eq!(DB::number(&mut connection, "SELECT CAST(@@autocommit AS SIGNED)").await.unwrap(), 1);
    drop(connection);
    let mut tx = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut tx, &row(&led.tenure, 3)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(stage.written().await, 1);
}

/// PostgreSQL answers a COMMIT of such a transaction with a rollback and no error.
async fn a_statement_that_failed<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    stage.run("CREATE UNIQUE INDEX ON written (what)").await;
    let pool = stage.pool(1);
    let mut tx = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
    // Ignored, as by `let _ = …`.
    DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap_err();
    let refused = tx.commit().await;
    assert!(matches!(refused, Err(TransactionError::RolledBack)), "{refused:?}");
    stage.is_free().await;
    assert_eq!(stage.written().await, 0);

    // A savepoint contains the failure.
    let mut tx = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    DB::run(&mut inner, &row(&led.tenure, 1)).await.unwrap_err();
    inner.rollback().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(stage.written().await, 1);
}

async fn a_statement_that_failed_elsewhere<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let mut tx = led.tenure.begin_elsewhere(&stage.pool(1)).await.unwrap();
    DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
    DB::run(&mut tx, "SELECT 1 / 0").await.unwrap_err();
    let refused = tx.commit().await;
    assert!(matches!(refused, Err(TransactionError::RolledBack)), "{refused:?}");
    assert_eq!(stage.written().await, 0);
}

/// The transaction that is committed is the one that was begun, or none.
async fn a_rollback_of_the_works_own<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    for elsewhere in [false, true] {
        let begin = async || {
            if elsewhere { led.tenure.begin_elsewhere(&pool).await } else { led.tenure.begin(&pool).await }
        };
        let before = stage.written().await;
        let mut tx = begin().await.unwrap();
        DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
        DB::run(&mut tx, "ROLLBACK").await.unwrap();
        let refused = tx.commit().await;
        assert!(matches!(refused, Err(TransactionError::RolledBack)), "{refused:?}, elsewhere: {elsewhere}");
        assert_eq!(stage.written().await, before);
        // The next one is like any other.
        let mut tx = begin().await.unwrap();
        DB::run(&mut tx, &row(&led.tenure, 2)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(stage.written().await, before + 1);
    }
}

/// What a constraint that is deferred refuses is heard of from COMMIT.
async fn a_commit_that_fails<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    stage.run("ALTER TABLE written ADD UNIQUE (what) DEFERRABLE INITIALLY DEFERRED").await;
    let pool = stage.pool(1);
    let mut tx = led.tenure.begin(&pool).await.unwrap();
    let before = DB::number(&mut tx, "SELECT pg_backend_pid()::bigint").await.unwrap();
    for _ in 0..2 {
        DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
    }
    let refused = tx.commit().await;
    let Err(TransactionError::Sqlx(error)) = refused else { panic!("{refused:?}") };
    assert!(
        error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation),
        "{error}"
    );
    stage.is_free().await;
    assert_eq!(stage.written().await, 0);

    let mut connection = pool.acquire().await.unwrap();
    assert_ne!(DB::number(&mut connection, "SELECT pg_backend_pid()::bigint").await.unwrap(), before);
    DB::run(&mut connection, &row(&led.tenure, 2)).await.unwrap();
    assert_eq!(stage.written().await, 1);
}

/// sqlx queues a rollback for a nested `begin` that is dropped, and takes the outer transaction for the one to roll back
/// (sqlx issue 4385). What may not happen is a statement that is neither in the fenced transaction nor refused.
async fn a_nested_begin_dropped_half_way<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    let (mut whole, mut gone, mut expected) = (0, 0, 0);
    // On a busy machine the answer may be there before the first poll is over, and only a later try is half-way.
    for polls in (1..=6).chain(std::iter::repeat_n(1, 100)) {
        if polls == 1 && whole > 0 && gone > 0 {
            break;
        }
        let mut tx = led.tenure.begin(&pool).await.unwrap();
        DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
        poll_and_drop(tx.begin(), polls).await;
        if let Err(panic) = used::<DB>(&mut tx) {
            let text = panic.downcast_ref::<&str>().expect("a literal");
            assert!(text.contains("rolled back under its user"), "{text}");
            gone += 1;
        } else {
            DB::run(&mut tx, &row(&led.tenure, 2)).await.unwrap();
            assert_eq!(
                stage.written().await,
                expected,
                "written outside the transaction, after {polls} polls"
            );
        }
        match tx.commit().await {
            Ok(()) => {
                whole += 1;
                expected += 2;
            }
            Err(TransactionError::RolledBack) => {}
            Err(error) => panic!("after {polls} polls: {error:?}"),
        }
        stage.is_free().await;
        assert_eq!(stage.written().await, expected, "after {polls} polls");
    }
    assert!(whole > 0 && gone > 0, "went on whole {whole} times, was gone {gone} times");
    let mut connection = pool.acquire().await.unwrap();
    DB::run(&mut connection, &row(&led.tenure, 3)).await.unwrap();
    assert_eq!(stage.written().await, expected + 1);
}

fn used<DB: Sql>(tx: &mut Transaction<DB>) -> Result<(), Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| {
        let _: &mut DB::Connection = tx;
    }))
}

async fn poll_and_drop(future: impl Future, polls: u32) {
    let mut future = Box::pin(future);
    let mut polled = 0;
    std::future::poll_fn(|context| {
        polled += 1;
        match future.as_mut().poll(context) {
            Poll::Pending if polled < polls => Poll::Pending,
            _ => Poll::Ready(()),
        }
    })
    .await;
}
