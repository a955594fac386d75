//! A future that is dropped anywhere leaves no open transaction in the pool (sqlx issues 4385 and 4393).

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use leader::{EventKind, Tenure, TransactionError};
use leader_tests::harness::Sql;
use sqlx::Pool;

use crate::{Stage, row, scenarios};

scenarios!(every database: dropped_anywhere);

const ROUNDS: i64 = 300;

/// The small pool of an application.
const SIZE: u32 = 2;

async fn dropped_anywhere<DB: Sql>(stage: Stage<DB>) {
    let seed = std::env::var("LEADER_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!("LEADER_TEST_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let led = stage.lead().await;
    let pool = stage.pool(SIZE);
    stage.run("CREATE TABLE probes (round BIGINT NOT NULL)").await;
    let mut finished = 0;
    for round in 1..=ROUNDS {
        let drop_at = if rng.bool() {
            DropAt::Poll(rng.u32(1..=14))
        } else {
            DropAt::Time(Duration::from_micros(rng.u64(0..8_000)))
        };
        let what = rng.choice([What::Guard, What::Closure, What::Elsewhere, What::Rollback]);
        let what = what.expect("there are some");
        let done = drop_at.run(play::<DB>(what, &led.tenure, &pool)).await;
        match done {
            Some(Err(error)) => panic!("round {round} {what:?}: {error:?}"),
            Some(Ok(())) => finished += 1,
            None => {}
        }
        // Every connection that the pool has: none is in a transaction, or the row would not be there for others.
        let mut connections = Vec::new();
        for _ in 0..SIZE {
            let connection = pool.acquire().await;
            connections
                .push(connection.unwrap_or_else(|error| {
                    panic!("round {round} {what:?} {drop_at:?}: exhausted: {error}")
                }));
        }
        for connection in &mut connections {
            let probe = format!("INSERT INTO probes (round) VALUES ({round})");
            let done = DB::run(connection, &probe).await;
            done.unwrap_or_else(|error| panic!("round {round} {what:?} {drop_at:?}: {error}"));
        }
        let probes = format!("SELECT count(*) FROM probes WHERE round = {round}");
        assert_eq!(
            stage.number(&probes).await,
            i64::from(SIZE),
            "round {round} {what:?} {drop_at:?}: a pooled connection was in a transaction"
        );
    }
    stage.is_free().await;
    assert!(
        (ROUNDS / 20..ROUNDS * 19 / 20).contains(&finished),
        "{finished} of {ROUNDS} finished: the points to drop at are badly spread"
    );
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    led.running.shutdown().await.unwrap();
}

#[derive(Clone, Copy, Debug)]
enum What {
    Guard,
    Closure,
    Elsewhere,
    Rollback,
}

async fn play<DB: Sql>(what: What, tenure: &Tenure, pool: &Pool<DB>) -> Result<(), TransactionError> {
    let insert = row(tenure, 0);
    match what {
        What::Closure => tenure.transaction(pool, async |tx| Ok(DB::run(tx, &insert).await?)).await,
        What::Guard | What::Elsewhere | What::Rollback => {
            let mut tx = match what {
                What::Elsewhere => tenure.begin_elsewhere(pool).await?,
                _ => tenure.begin(pool).await?,
            };
            DB::run(&mut tx, &insert).await?;
            match what {
                What::Rollback => tx.rollback().await,
                _ => tx.commit().await,
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum DropAt {
    /// When it has been polled so often and is not done.
    Poll(u32),
    Time(Duration),
}

impl DropAt {
    async fn run<F: Future>(self, future: F) -> Option<F::Output> {
        match self {
            Self::Time(after) => tokio::time::timeout(after, future).await.ok(),
            Self::Poll(last) => {
                let mut future = pin!(future);
                let mut polls = 0;
                std::future::poll_fn(|context| {
                    polls += 1;
                    match future.as_mut().poll(context) {
                        Poll::Ready(output) => Poll::Ready(Some(output)),
                        Poll::Pending if polls >= last => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                })
                .await
            }
        }
    }
}
