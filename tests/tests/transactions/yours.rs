//! `Tenure::fence`: the fence inside a transaction that the application opened.

use std::time::Duration;

use leader::{Ending, EventKind, TransactionError};
use leader_tests::harness::{Kind, Sql};
use sqlx::Connection;
use tokio::time::Instant;

use crate::stale::REFUSED_WITHIN;
use crate::{Stage, row, scenarios};

scenarios!(every database: a_transaction_of_yours, outside_a_transaction, after_a_takeover, after_a_takeover_with_an_old_snapshot);
scenarios!(servers: at_every_isolation_level, after_a_takeover_at_every_isolation_level);
scenarios!(sqlite: after_a_takeover_with_the_file_held);

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

async fn a_transaction_of_yours<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    for what in 0..2 {
        let mut yours = pool.begin().await.unwrap();
        led.tenure.fence(&mut yours).await.unwrap();
        assert!(stage.is_locked().await);
        DB::run(&mut yours, &row(&led.tenure, what)).await.unwrap();
        yours.commit().await.unwrap();
        assert_eq!(stage.written().await, what + 1);
        stage.is_free().await;
    }
    let mut yours = pool.begin().await.unwrap();
    DB::run(&mut yours, &row(&led.tenure, 2)).await.unwrap();
    // Late is fine too.
    led.tenure.fence(&mut yours).await.unwrap();
    yours.rollback().await.unwrap();
    assert_eq!(stage.written().await, 2);
    stage.is_free().await;
}

async fn outside_a_transaction<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    let mut connection = pool.acquire().await.unwrap();
    let refused = led.tenure.fence(&mut connection).await.unwrap_err();
    assert!(matches!(refused, TransactionError::NotInTransaction), "{refused:?}");
    // It is as good as before.
    let mut yours = connection.begin().await.unwrap();
    led.tenure.fence(&mut yours).await.unwrap();
    yours.commit().await.unwrap();
}

async fn at_every_isolation_level<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    for (what, level) in (0..).zip(LEVELS) {
        let mut yours = at_level::<DB>(&pool, level).await;
        led.tenure.fence(&mut yours).await.unwrap();
        assert!(stage.is_locked().await, "{level}");
        DB::run(&mut yours, &row(&led.tenure, what)).await.unwrap();
        yours.commit().await.unwrap();
        assert_eq!(stage.written().await, what + 1, "{level}");
    }
}

async fn after_a_takeover<DB: Sql>(stage: Stage<DB>) {
    let (sleepy, awake) = stage.overtaken().await;
    let pool = stage.pool(1);
    let mut yours = pool.begin().await.unwrap();
    let asked = Instant::now();
    let refused = sleepy.tenure.fence(&mut yours).await.unwrap_err();
    // On SQLite the fence holds the file, beside which the keeper cannot be asked. It is afterwards.
    assert!(
        match refused {
            TransactionError::Ended(_) => true,
            TransactionError::Unknown => DB::KIND == Kind::Sqlite,
            _ => false,
        },
        "{refused:?}"
    );
    assert!(asked.elapsed() < REFUSED_WITHIN, "refused after {:?}", asked.elapsed());
    yours.rollback().await.unwrap();
    assert_eq!(sleepy.tenure.ended().await, Ending::LeaseLost);
    assert!(asked.elapsed() < Duration::from_secs(5));
    assert_eq!(awake.events.count(EventKind::Lost), 0, "{:?}", awake.events);
    sleepy.puppet.obey();
}

async fn after_a_takeover_with_an_old_snapshot<DB: Sql>(stage: Stage<DB>) {
    let sleepy = stage.sleepy().await;
    let pool = stage.pool(1);
    // A snapshot as on SQLite; READ COMMITTED on PostgreSQL, REPEATABLE READ on MariaDB.
    let mut yours = pool.begin().await.unwrap();
    DB::number(&mut yours, "SELECT count(*) FROM leader_names").await.unwrap();
    let _awake = stage.overtake(&sleepy).await;
    let refused = sleepy.tenure.fence(&mut yours).await.unwrap_err();
    assert!(matches!(refused, TransactionError::Ended(_) | TransactionError::Conflict(_)), "{refused:?}");
    yours.rollback().await.unwrap();
    sleepy.puppet.obey();
}

async fn after_a_takeover_at_every_isolation_level<DB: Sql>(stage: Stage<DB>) {
    for level in LEVELS {
        let sleepy = stage.sleepy().await;
        let pool = stage.pool(1);
        let mut yours = at_level::<DB>(&pool, level).await;
        // A snapshot of the time before, where the level has one. At SERIALIZABLE, MariaDB locks what it reads.
        DB::number(&mut yours, "SELECT count(*) FROM written").await.unwrap();
        let awake = stage.overtake(&sleepy).await;
        let refused = sleepy.tenure.fence(&mut yours).await.unwrap_err();
        assert!(
            matches!(refused, TransactionError::Ended(_) | TransactionError::Conflict(_)),
            "{level}: {refused:?}"
        );
        yours.rollback().await.unwrap();
        sleepy.puppet.obey();
        sleepy.running.shutdown().await.unwrap();
        awake.running.shutdown().await.unwrap();
    }
}

/// The application has written before it asks for the fence, and so it holds the file while it is refused: it must not be
/// kept waiting for a keeper that waits for the file.
async fn after_a_takeover_with_the_file_held<DB: Sql>(stage: Stage<DB>) {
    let (sleepy, awake) = stage.overtaken().await;
    let pool = stage.pool(1);
    let mut yours = pool.begin().await.unwrap();
    DB::run(&mut yours, &row(&sleepy.tenure, 1)).await.unwrap();
    let asked = Instant::now();
    let refused = sleepy.tenure.fence(&mut yours).await;
    assert!(matches!(refused, Err(TransactionError::Ended(_))), "{refused:?}");
    assert_eq!(sleepy.tenure.ending(), Some(Ending::LeaseLost));
    assert!(asked.elapsed() < REFUSED_WITHIN, "refused after {:?}: {refused:?}", asked.elapsed());
    yours.rollback().await.unwrap();
    assert_eq!(awake.events.count(EventKind::Lost), 0);
    sleepy.puppet.obey();
}

async fn at_level<DB: Sql>(pool: &sqlx::Pool<DB>, level: &str) -> sqlx::Transaction<'static, DB> {
    let mut connection = pool.acquire().await.unwrap();
    let default = match DB::KIND {
        Kind::Postgres => {
            format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}")
        }
        _ => format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"),
    };
    DB::run(&mut connection, &default).await.unwrap();
    drop(connection);
    // The pool has one connection.
    pool.begin().await.unwrap()
}
