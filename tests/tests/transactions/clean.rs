//! The connection that a transaction gives back to the pool is as good as new.

use leader::Transaction;
use leader_tests::harness::{Kind, PATIENCE, Sql, eventually};
use sqlx::{Connection, Pool};

use crate::{Led, Stage, row, scenarios};

scenarios!(every database: after_a_commit, after_a_rollback);

async fn after_a_commit<DB: Sql>(stage: Stage<DB>) {
    is_clean_after(stage, 1, async |tx: Transaction<DB>| tx.commit().await.unwrap()).await;
}

async fn after_a_rollback<DB: Sql>(stage: Stage<DB>) {
    is_clean_after(stage, 0, async |tx: Transaction<DB>| tx.rollback().await.unwrap()).await;
}

async fn is_clean_after<DB: Sql>(stage: Stage<DB>, kept: i64, end: impl AsyncFn(Transaction<DB>)) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    let mut written = 0;
    for elsewhere in [false, true] {
        let mut tx = if elsewhere {
            led.tenure.begin_elsewhere(&pool).await.unwrap()
        } else {
            led.tenure.begin(&pool).await.unwrap()
        };
        DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
        end(tx).await;
        written += kept;
        written += is_clean(&stage, &led, &pool, written).await;
    }
    led.running.shutdown().await.unwrap();
}

/// Returns how many rows it has written.
async fn is_clean<DB: Sql>(stage: &Stage<DB>, led: &Led, pool: &Pool<DB>, written: i64) -> i64 {
    let idle = async || (pool.num_idle() == 1).then_some(());
    eventually("the connection to be back in the pool", PATIENCE, idle).await;
    // Before anybody says anything on it.
    stage.is_free().await;
    assert_eq!(stage.written().await, written);

    let mut connection = pool.acquire().await.unwrap();
    assert!(!connection.is_in_transaction(), "sqlx believes in a transaction");
    DB::run(&mut connection, &row(&led.tenure, 2)).await.unwrap();
    assert_eq!(stage.written().await, written + 1, "what is written is committed at once");
    if DB::KIND == Kind::MySql {
        let savepoint = DB::run(&mut connection, "RELEASE SAVEPOINT leader_fence").await;
        savepoint.expect_err("the savepoint of the fence is gone");
    }
    // It is a transaction that the next one begins, and not a savepoint.
    let mut yours = connection.begin().await.unwrap();
    DB::run(&mut yours, &row(&led.tenure, 3)).await.unwrap();
    yours.rollback().await.unwrap();
    assert_eq!(stage.written().await, written + 1);
    let mut yours = connection.begin().await.unwrap();
    DB::run(&mut yours, &row(&led.tenure, 4)).await.unwrap();
    yours.commit().await.unwrap();
    assert_eq!(stage.written().await, written + 2);
    2
}
