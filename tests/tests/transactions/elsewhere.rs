//! Pools on other databases than the elector's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leader::{Ending, TransactionError};
use leader_tests::harness::local::{Events, Led, Puppet};
use leader_tests::harness::{PATIENCE, Sql, eventually};
use tokio::time::{Instant, timeout};

use crate::stale::REFUSED_WITHIN;
use crate::{NAME, Stage, row, scenarios};

scenarios!(every database:
    another_database_is_unknown,
    another_database_with_leases_of_its_own_is_unknown,
    a_transaction_elsewhere,
    a_stale_holder_is_refused_elsewhere,
    begins_without_end_keep_no_name_from_being_given_back,
);

async fn another_database_is_unknown<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let other = stage.other().await;
    let pool = other.pool(1);
    for _ in 0..2 {
        let refused = led.tenure.begin(&pool).await.err();
        assert!(matches!(refused, Some(TransactionError::Unknown)), "{refused:?}");
    }
    let mut yours = pool.begin().await.unwrap();
    let refused = led.tenure.fence(&mut yours).await.err();
    assert!(matches!(refused, Some(TransactionError::Unknown)), "{refused:?}");
    yours.rollback().await.unwrap();
    assert_eq!(led.tenure.ending(), None);
    // Nothing is left behind in the pool.
    let mut connection = pool.acquire().await.unwrap();
    DB::run(&mut connection, &row(&led.tenure, 1)).await.unwrap();
    assert_eq!(other.written().await, 1);
}

async fn another_database_with_leases_of_its_own_is_unknown<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let other = stage.other().await;
    let _theirs = other.lead().await;
    let pool = other.pool(1);
    let refused = led.tenure.begin(&pool).await.err();
    assert!(matches!(refused, Some(TransactionError::Unknown)), "{refused:?}");
    assert_eq!(led.tenure.ending(), None);
    let pool = stage.pool(1);
    led.tenure.begin(&pool).await.unwrap().commit().await.unwrap();
}

async fn a_transaction_elsewhere<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    led.puppet.stay();
    let other = stage.other().await;
    let pool = other.pool(2);
    let mut tx = led.tenure.begin_elsewhere(&pool).await.unwrap();
    DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(other.written().await, 1);

    let mut tx = led.tenure.begin_elsewhere(&pool).await.unwrap();
    DB::run(&mut tx, &row(&led.tenure, 2)).await.unwrap();
    drop(tx);
    other.is_idle().await;
    assert_eq!(other.written().await, 1);

    let mut tx = led.tenure.begin_elsewhere(&pool).await.unwrap();
    DB::run(&mut tx, &row(&led.tenure, 3)).await.unwrap();
    stage.rob("first").await;
    assert_eq!(led.tenure.ended().await, Ending::LeaseLost);
    let refused = tx.commit().await.err();
    assert!(matches!(refused, Some(TransactionError::Ended(_))), "{refused:?}");
    assert_eq!(other.written().await, 1);
    let refused = timeout(Duration::from_secs(1), led.tenure.begin_elsewhere(&pool));
    assert!(matches!(refused.await.unwrap(), Err(TransactionError::Ended(_))));
    other.is_idle().await;
    led.puppet.obey();
}

/// The elector's database is asked, and knows better.
async fn a_stale_holder_is_refused_elsewhere<DB: Sql>(stage: Stage<DB>) {
    let other = stage.other().await;
    let (sleepy, _awake) = stage.overtaken().await;
    let pool = other.pool(1);
    let asked = Instant::now();
    let refused = sleepy.tenure.begin_elsewhere(&pool).await.err();
    assert!(matches!(refused, Some(TransactionError::Ended(_))), "{refused:?}");
    assert!(asked.elapsed() < REFUSED_WITHIN, "refused after {:?}", asked.elapsed());
    other.is_idle().await;
    sleepy.puppet.obey();
}

/// Each asks the elector's database whether the tenure goes on.
async fn begins_without_end_keep_no_name_from_being_given_back<DB: Sql>(stage: Stage<DB>) {
    const BUSY: usize = 20;

    let other = stage.other().await;
    let (mut quiet, events) = (Puppet::default(), Events::default());
    let led = Led::by(|_, puppet| {
        stage.elector("first", &events).work(NAME, puppet.work()).work("quiet", quiet.work())
    })
    .await;
    quiet.tenure().await;
    // Nothing is written, so that SQLite's writers do not wait for one another.
    let pool = other.pool(2);
    let begins = Arc::new(AtomicUsize::new(0));
    let busy: Vec<_> = (0..BUSY)
        .map(|_| {
            let (tenure, pool, begins) = (led.tenure.clone(), pool.clone(), Arc::clone(&begins));
            tokio::spawn(async move {
                while let Ok(tx) = tenure.begin_elsewhere(&pool).await {
                    begins.fetch_add(1, Ordering::Relaxed);
                    tx.rollback().await.unwrap();
                }
            })
        })
        .collect();
    eventually("begins", PATIENCE, async || (begins.load(Ordering::Relaxed) > 2 * BUSY).then_some(())).await;
    timeout(PATIENCE, led.running.step_down("quiet")).await.expect("it is given back").unwrap();
    led.running.shutdown().await.unwrap();
    for busy in busy {
        busy.await.unwrap();
    }
}

impl<DB: Sql> Stage<DB> {
    async fn other(&self) -> Self {
        Self::on(self.database.sibling().await).await
    }
}
