//! A future that is dropped anywhere leaves no open transaction in the pool (sqlx issues 4385 and 4393).

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use leader::{EventKind, Tenure, Transaction, TransactionError};
use leader_tests::harness::{Sql, any_seed};
use sqlx::Pool;
use tokio::time::Instant;

use crate::{Stage, row, scenarios};

scenarios!(every database: dropped_anywhere);

const ROUNDS: i64 = 1_000;

/// The small pool of an application.
const SIZE: u32 = 2;

async fn dropped_anywhere<DB: Sql>(stage: Stage<DB>) {
    let seed = any_seed();
    println!("LEADER_TEST_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let led = stage.lead().await;
    let pool = stage.pool(SIZE);
    stage.run("CREATE TABLE probes (round BIGINT NOT NULL)").await;
    let usual = usual(&led.tenure, &pool).await;
    let mut finished = 0;
    for round in 1..=ROUNDS {
        let drop_at = if rng.bool() {
            DropAt::Poll(rng.u32(1..=8))
        } else {
            DropAt::Time(Duration::from_micros(rng.u64(0..usual)))
        };
        let what = rng.choice(What::ALL).expect("there are some");
        let what_now = format!("round {round} {what:?} {drop_at:?}");
        match play(what, drop_at, &led.tenure, &pool).await {
            Some(Err(error)) => panic!("{what_now}: {error:?}"),
            Some(Ok(())) => finished += 1,
            None => {}
        }
        is_clean(&stage, &pool, round, &what_now).await;
    }
    stage.is_free().await;
    assert!(
        (ROUNDS / 20..ROUNDS * 19 / 20).contains(&finished),
        "{finished} of {ROUNDS} finished: the points to drop at are badly spread"
    );
    // Nothing of it has reached the tenure.
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    assert_eq!(led.events.count(EventKind::Elected), 1, "{:?}", led.events);
    let written = stage.written().await;
    commit(&led.tenure, &pool).await.unwrap();
    assert_eq!(stage.written().await, written + 1);
    led.running.shutdown().await.unwrap();
}

/// How long one of them takes when nobody drops it, in microseconds: the first includes a connection.
async fn usual<DB: Sql>(tenure: &Tenure, pool: &Pool<DB>) -> u64 {
    let begun = Instant::now();
    for what in What::ALL {
        let done = play(what, DropAt::Never, tenure, pool).await.expect("it was not dropped");
        done.unwrap_or_else(|error| panic!("{what:?}: {error:?}"));
    }
    u64::try_from(begun.elapsed().as_micros()).expect("a short time") / What::ALL.len() as u64
}

/// The pool has every connection that it may have, and none is in a transaction, or what it writes would not be there
/// for others.
async fn is_clean<DB: Sql>(stage: &Stage<DB>, pool: &Pool<DB>, round: i64, what_now: &str) {
    let mut connections = Vec::new();
    for _ in 0..SIZE {
        let connection = pool.acquire().await;
        connections.push(connection.unwrap_or_else(|error| panic!("{what_now}: exhausted: {error}")));
    }
    for connection in &mut connections {
        let probe = format!("INSERT INTO probes (round) VALUES ({round})");
        let done = DB::run(connection, &probe).await;
        done.unwrap_or_else(|error| panic!("{what_now}: {error}"));
    }
    let probes = format!("SELECT count(*) FROM probes WHERE round = {round}");
    assert_eq!(
        stage.number(&probes).await,
        i64::from(SIZE),
        "{what_now}: a pooled connection was in a transaction"
    );
}

#[derive(Clone, Copy, Debug)]
enum What {
    Commit,
    Rollback,
    Closure,
    Elsewhere,
    UntilEnded,
    Nested,
    Fence,
    Status,
}

impl What {
    const ALL: [Self; 8] = [
        Self::Commit,
        Self::Rollback,
        Self::Closure,
        Self::Elsewhere,
        Self::UntilEnded,
        Self::Nested,
        Self::Fence,
        Self::Status,
    ];
}

/// What came of it, unless it was dropped.
async fn play<DB: Sql>(
    what: What,
    drop_at: DropAt,
    tenure: &Tenure,
    pool: &Pool<DB>,
) -> Option<Result<(), TransactionError>> {
    let insert = row(tenure, 0);
    match what {
        What::Commit => drop_at.run(commit(tenure, pool)).await,
        What::UntilEnded => {
            let committed = tenure.until_ended(commit(tenure, pool));
            drop_at.run(async { committed.await? }).await
        }
        What::Rollback => {
            let rolled_back = async {
                let mut tx = tenure.begin(pool).await?;
                DB::run(&mut tx, &insert).await?;
                tx.rollback().await
            };
            drop_at.run(rolled_back).await
        }
        What::Closure => {
            let closure = async |tx: &mut Transaction<DB>| Ok(DB::run(tx, &insert).await?);
            drop_at.run(tenure.transaction(pool, closure)).await
        }
        What::Elsewhere => {
            let elsewhere = async {
                let mut tx = tenure.begin_elsewhere(pool).await?;
                DB::run(&mut tx, &insert).await?;
                tx.commit().await
            };
            drop_at.run(elsewhere).await
        }
        What::Nested => {
            let nested = async {
                let mut tx = tenure.begin(pool).await?;
                let mut savepoint = tx.begin().await?;
                DB::run(&mut savepoint, &insert).await?;
                savepoint.commit().await?;
                tx.commit().await
            };
            drop_at.run(nested).await
        }
        What::Status => drop_at.run(async { Ok(leader::status(pool).await.map(drop)?) }).await,
        What::Fence => {
            // Begin and commit are sqlx's own here, and so is what they leave behind when they are dropped.
            let mut tx = pool.begin().await.expect("a transaction");
            let fenced = async {
                tenure.fence(&mut tx).await?;
                Ok(DB::run(&mut tx, &insert).await?)
            };
            let done = drop_at.run(fenced).await;
            if let Some(Ok(())) = done {
                tx.commit().await.expect("it leads");
            }
            done
        }
    }
}

async fn commit<DB: Sql>(tenure: &Tenure, pool: &Pool<DB>) -> Result<(), TransactionError> {
    let mut tx = tenure.begin(pool).await?;
    DB::run(&mut tx, &row(tenure, 0)).await?;
    tx.commit().await
}

#[derive(Clone, Copy, Debug)]
enum DropAt {
    Never,
    /// When it has been polled so often and is not done.
    Poll(u32),
    Time(Duration),
}

impl DropAt {
    async fn run<F: Future>(self, future: F) -> Option<F::Output> {
        match self {
            Self::Never => Some(future.await),
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
