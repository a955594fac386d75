//! Throw-away servers, one database per test, and replicas that tests may kill and freeze.
//!
//! ```no_run
//! use leader_tests::harness::{Kind, Launch, TestDatabase};
//!
//! # async fn example(path_of_replica: &str) {
//! let database = TestDatabase::create(Kind::Postgres).await;
//! let replica = Launch::new(path_of_replica, &database.url).work("mail", "ledger").start();
//! let elected = replica.wait("its election", |event| event.is("elected")).await;
//! replica.kill();
//! # }
//! ```
//!
//! `path_of_replica` is `env!("CARGO_BIN_EXE_replica")` in a test target.

pub mod checks;
pub mod database;
pub mod deployment;
pub mod isolation;
pub mod local;
pub mod lock;
pub mod logs;
pub mod pgbouncer;
pub mod proxy;
pub mod replica;
pub mod servers;
pub mod sql;

mod install;
mod slots;
mod standby;
mod supervisor;

pub use database::{Kind, TestDatabase};
pub use deployment::Deployment;
pub use isolation::Isolation;
pub use lock::Lock;
pub use pgbouncer::PgBouncer;
pub use proxy::{Fate, Proxy, Statement, To};
pub use replica::{Event, Launch, PATIENCE, Replica, first};
pub use servers::Server;
pub use sql::Sql;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The machine's wall clock, the one that events are stamped with.
///
/// # Panics
///
/// When the clock shows a time before 1970.
pub fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
    i64::try_from(since_epoch.as_millis()).expect("a clock before the year 292278994")
}

/// For how long those tests are to go on that say so, if somebody has the time: `LEADER_TEST_SOAK`, in seconds.
///
/// # Panics
///
/// When the variable holds no number.
pub fn soak() -> Option<Duration> {
    let seconds = std::env::var("LEADER_TEST_SOAK").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("`LEADER_TEST_SOAK` is a whole number")))
}

/// That of `LEADER_TEST_SEED`, or any.
///
/// # Panics
///
/// When the variable holds no number.
pub fn any_seed() -> u64 {
    match std::env::var("LEADER_TEST_SEED") {
        Ok(seed) => seed.parse().expect("`LEADER_TEST_SEED` is a whole number"),
        // Short enough to be typed.
        Err(_) => fastrand::u32(..).into(),
    }
}

/// Asks again and again until the answer is there, for what no event announces.
///
/// # Panics
///
/// When it is not there within `bound`.
pub async fn eventually<T>(what: &str, bound: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    let answer = tokio::time::timeout(bound, asking).await;
    answer.unwrap_or_else(|_| panic!("waited {bound:?} in vain for {what}"))
}

/// Whoever panicked while it held this has changed nothing about what is inside, and must not hide why it did.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
