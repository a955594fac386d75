//! Commit writes; everything else does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leader::TransactionError;
use leader_tests::harness::{PATIENCE, Sql, eventually};
use tokio::sync::Notify;

use crate::{Stage, row, scenarios};

scenarios!(every database:
    a_commit_writes,
    a_rollback_writes_nothing,
    a_dropped_transaction_writes_nothing,
    a_nested_begin_is_a_savepoint_and_keeps_the_fence,
    a_savepoint_that_is_dropped_is_rolled_back,
    a_closure_commits,
    a_closure_that_fails_rolls_back,
    a_closure_is_dropped_at_the_ending,
);

async fn a_commit_writes<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    for what in 0..3 {
        let mut tx = led.tenure.begin(&pool).await.unwrap();
        assert_eq!(tx.tenure().term(), led.tenure.term());
        assert!(stage.is_locked().await, "the fence holds the row");
        DB::run(&mut tx, &row(&led.tenure, what)).await.unwrap();
        assert_eq!(stage.written().await, what, "not before the commit");
        tx.commit().await.unwrap();
        assert_eq!(stage.written().await, what + 1);
    }
    stage.is_free().await;
    let idle = async || (pool.num_idle() == 1).then_some(());
    eventually("its connection to be back in the pool: it is clean", PATIENCE, idle).await;
    led.running.shutdown().await.unwrap();
}

async fn a_rollback_writes_nothing<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    for _ in 0..3 {
        let mut tx = led.tenure.begin(&pool).await.unwrap();
        DB::run(&mut tx, &row(&led.tenure, 0)).await.unwrap();
        tx.rollback().await.unwrap();
        assert!(!stage.database_has_idle_transaction().await);
        assert_eq!(stage.written().await, 0);
    }
    stage.is_free().await;
}

async fn a_dropped_transaction_writes_nothing<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    for _ in 0..3 {
        let mut tx = led.tenure.begin(&pool).await.unwrap();
        DB::run(&mut tx, &row(&led.tenure, 0)).await.unwrap();
        drop(tx);
        stage.is_free().await;
        assert_eq!(stage.written().await, 0);
    }
    // Whoever gets the next connection is in no transaction.
    let mut connection = pool.acquire().await.unwrap();
    DB::run(&mut connection, &row(&led.tenure, 1)).await.unwrap();
    assert_eq!(stage.written().await, 1);
}

async fn a_nested_begin_is_a_savepoint_and_keeps_the_fence<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    let mut tx = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();

    let mut inner = tx.begin().await.unwrap();
    DB::run(&mut inner, &row(&led.tenure, 2)).await.unwrap();
    inner.rollback().await.unwrap();
    assert!(stage.is_locked().await, "the savepoint that was rolled back took the fence along");

    let mut inner = tx.begin().await.unwrap();
    DB::run(&mut inner, &row(&led.tenure, 3)).await.unwrap();
    inner.commit().await.unwrap();
    assert!(stage.is_locked().await, "the savepoint that was released took the fence along");
    assert_eq!(stage.written().await, 0, "a savepoint that is released commits nothing");
    tx.commit().await.unwrap();
    let kept = "SELECT count(*) FROM written WHERE what IN (1, 3)";
    assert_eq!(stage.number(kept).await, 2);
    assert_eq!(stage.written().await, 2);
}

/// As `?` in the middle of it does.
async fn a_savepoint_that_is_dropped_is_rolled_back<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    for turn in 0..20 {
        let mut tx = led.tenure.begin(&pool).await.unwrap();
        DB::run(&mut tx, &row(&led.tenure, turn)).await.unwrap();
        let mut inner = tx.begin().await.unwrap();
        DB::run(&mut inner, &row(&led.tenure, -1)).await.unwrap();
        drop(inner);
        if turn % 2 == 0 {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        assert_eq!(pool.size(), 1, "its connection went back to the pool");
    }
    let kept = "SELECT count(*) FROM written WHERE what >= 0 AND what % 2 = 0";
    assert_eq!((stage.number(kept).await, stage.written().await), (10, 10));
    stage.is_free().await;
}

async fn a_closure_commits<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    let insert = row(&led.tenure, 1);
    let answer = led.tenure.transaction(&pool, async |tx| {
        DB::run(tx, &insert).await?;
        Ok::<_, TransactionError>(42)
    });
    assert_eq!(answer.await.unwrap(), 42);
    assert_eq!(stage.written().await, 1);
    stage.is_free().await;
}

async fn a_closure_that_fails_rolls_back<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    let insert = row(&led.tenure, 1);
    let failed = led.tenure.transaction(&pool, async |tx| {
        DB::run(tx, &insert).await?;
        Err::<(), _>(anyhow::anyhow!("no stamps left"))
    });
    assert_eq!(failed.await.unwrap_err().to_string(), "no stamps left");
    assert_eq!(stage.written().await, 0);
    stage.is_free().await;
    let idle = async || (pool.num_idle() == 1).then_some(());
    eventually("the connection is back: rolled back, it is clean", Duration::from_secs(20), idle).await;
}

async fn a_closure_is_dropped_at_the_ending<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    led.puppet.stay();
    let pool = stage.pool(1);
    let insert = row(&led.tenure, 1);
    let (inside, dropped) = (Notify::new(), Arc::new(AtomicBool::new(false)));
    let flag = OnDrop(Arc::clone(&dropped));
    let closure = led.tenure.transaction(&pool, async |tx| {
        let _flag = flag;
        DB::run(tx, &insert).await?;
        inside.notify_one();
        std::future::pending::<Result<(), TransactionError>>().await
    });
    let step_down = async {
        inside.notified().await;
        led.running.step_down(crate::NAME).await.unwrap();
    };
    tokio::pin!(step_down);
    let ended = tokio::select! {
        ended = closure => ended,
        () = &mut step_down => panic!("stepped down while the work is there"),
    };
    assert!(
        matches!(ended, Err(TransactionError::Ended(ended)) if ended.ending() == leader::Ending::SteppedDown)
    );
    assert!(dropped.load(Ordering::Relaxed));
    stage.is_free().await;
    assert_eq!(stage.written().await, 0);
    let mut connection = pool.acquire().await.unwrap();
    DB::run(&mut connection, &insert).await.unwrap();
    assert_eq!(stage.written().await, 1);
    led.puppet.obey();
    step_down.await;
}

struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<DB: Sql> Stage<DB> {
    async fn database_has_idle_transaction(&self) -> bool {
        self.database.idle_transactions().await > 0
    }
}
