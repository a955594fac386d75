//! A network that swallows everything between a work and its database: a work that obeys ends within its grace all the
//! same, whatever it was waiting for.

use leader::{EventKind, Tenure, Timings, TransactionError};
use leader_tests::harness::local::FAST;
use leader_tests::harness::{PATIENCE, Proxy, Sql, eventually};
use sqlx::Pool;

use crate::{Stage, row, scenarios};

scenarios!(servers:
    in_begin,
    in_a_new_connection,
    in_a_statement,
    in_commit,
    in_rollback,
    in_a_closure,
    in_commit_with_a_long_grace,
);

/// What waits for an answer that does not come.
#[derive(Clone, Copy, Debug)]
enum In {
    Begin,
    NewConnection,
    Statement,
    Commit,
    Rollback,
    Closure,
}

async fn in_begin<DB: Sql>(stage: Stage<DB>) {
    let ended = ends_in_time(stage, In::Begin).await;
    assert!(matches!(ended, Err(TransactionError::Ended(_))), "{ended:?}");
}

async fn in_a_new_connection<DB: Sql>(stage: Stage<DB>) {
    let ended = ends_in_time(stage, In::NewConnection).await;
    assert!(matches!(ended, Err(TransactionError::Ended(_))), "{ended:?}");
}

async fn in_a_statement<DB: Sql>(stage: Stage<DB>) {
    let ended = ends_in_time(stage, In::Statement).await;
    assert!(matches!(ended, Err(TransactionError::Ended(_))), "{ended:?}");
}

/// Nobody knows here whether the database has heard of it.
async fn in_commit<DB: Sql>(stage: Stage<DB>) {
    let ended = ends_in_time(stage, In::Commit).await;
    assert!(matches!(ended, Err(TransactionError::OutcomeUnknown(_))), "{ended:?}");
}

/// A grace that goes on past the lease: the process ends for the lease first, and the work returns before that.
async fn in_commit_with_a_long_grace<DB: Sql>(stage: Stage<DB>) {
    let timings = Timings { grace: FAST.lease * 10, ..FAST };
    let ended = ends_in_time_with(timings, stage, In::Commit).await;
    assert!(matches!(ended, Err(TransactionError::OutcomeUnknown(_))), "{ended:?}");
}

async fn in_rollback<DB: Sql>(stage: Stage<DB>) {
    let ended = ends_in_time(stage, In::Rollback).await;
    assert!(matches!(ended, Err(TransactionError::Ended(_))), "{ended:?}");
}

async fn in_a_closure<DB: Sql>(stage: Stage<DB>) {
    let ended = ends_in_time(stage, In::Closure).await;
    assert!(matches!(ended, Err(TransactionError::Ended(_))), "{ended:?}");
}

/// Returns what the work was told, which the test plays.
async fn ends_in_time<DB: Sql>(stage: Stage<DB>, place: In) -> Result<(), TransactionError> {
    ends_in_time_with(FAST, stage, place).await
}

async fn ends_in_time_with<DB: Sql>(
    timings: Timings,
    stage: Stage<DB>,
    place: In,
) -> Result<(), TransactionError> {
    let proxy = Proxy::to(&stage.database).await;
    let pool = DB::pool_to(proxy.url(), 1);
    // The elector's own connection goes to the server directly.
    let led = stage.lead_with(|builder| builder.timings(timings)).await;
    led.puppet.stay();
    let robbed = async {
        proxy.has_swallowed().await;
        stage.rob("first").await;
    };
    let played = async { tokio::join!(work::<DB>(place, &led.tenure, &pool, &proxy), robbed).0 };
    let ended = tokio::select! {
        ended = played => ended,
        _ = led.events.of(EventKind::Overrun, &led.tenure) => panic!("its process would have ended: {:?}", led.events),
    };
    led.puppet.obey();
    let lost = led.events.of(EventKind::Lost, &led.tenure).await;
    let gone = led.events.of(EventKind::SteppedDown, &led.tenure).await;
    let after = gone.at.duration_since(lost.at);
    assert!(after < timings.grace.min(timings.lease), "{after:?} after the loss");
    assert_eq!(led.events.count(EventKind::Overrun), 0, "{:?}", led.events);

    // The server has heard of nothing: it ends the transaction for being idle (I8).
    stage.is_free().await;
    assert_eq!(stage.written().await, 0);
    led.running.shutdown().await.unwrap();
    ended
}

async fn work<DB: Sql>(
    place: In,
    tenure: &Tenure,
    pool: &Pool<DB>,
    proxy: &Proxy,
) -> Result<(), TransactionError> {
    let mut tx = tenure.begin(pool).await?;
    DB::run(&mut tx, &row(tenure, 1)).await?;
    match place {
        In::Begin => {
            tx.rollback().await?;
            let idle = async || (pool.num_idle() == 1).then_some(());
            eventually("the connection to be back", PATIENCE, idle).await;
            proxy.swallow();
            tenure.begin(pool).await.map(drop)
        }
        In::NewConnection => {
            drop(tx);
            proxy.swallow();
            tenure.begin(pool).await.map(drop)
        }
        In::Statement => {
            proxy.swallow();
            let done = tenure.until_ended(DB::run(&mut tx, &row(tenure, 2))).await?;
            Ok(done?)
        }
        In::Commit => {
            proxy.swallow();
            tx.commit().await
        }
        In::Rollback => {
            proxy.swallow();
            tx.rollback().await
        }
        In::Closure => {
            drop(tx);
            tenure
                .transaction(pool, async |tx| {
                    DB::run(tx, &row(tenure, 1)).await?;
                    proxy.swallow();
                    Ok(DB::run(tx, &row(tenure, 2)).await?)
                })
                .await
        }
    }
}
