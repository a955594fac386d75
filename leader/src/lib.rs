//! An annotated async function runs on exactly one replica, elected through the database you already have.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")] mod example {
//! use std::time::Duration;
//!
//! use leader::{State, Tenure};
//! use sqlx::PgPool;
//!
//! #[leader::work("cart_cleaner")]
//! async fn cart_cleaner(tenure: Tenure, State(pool): State<PgPool>) -> anyhow::Result<()> {
//!     loop {
//!         let mut tx = tenure.begin(&pool).await?; // refuses if this replica no longer leads
//!         sqlx::query("DELETE FROM carts WHERE expires_at < now()").execute(&mut *tx).await?;
//!         tx.commit().await?; // commits only if nobody else has been elected since
//!
//!         tenure.sleep(Duration::from_secs(1)).await?; // returns the ending as an error when it comes
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), leader::Error> {
//!     let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
//!     leader::Elector::builder()
//!         .database(&pool)
//!         .state(pool)
//!         .run() // until SIGTERM or Ctrl-C
//!         .await
//! }
//! # }
//! # fn main() {}
//! ```
//!
//! Start as many replicas of this program as you like: one of them runs `cart_cleaner`, the others stand by. When it
//! stops, crashes, freezes or loses the database, another one takes over.
//!
//! # Words
//!
//! - **Work**: a registered async function. Its **name** is its identity in the database and in logs.
//! - **Replica**: one process of the deployment that runs an elector.
//! - **Elector**: what a replica starts. It campaigns for every registered name and runs what it wins. See [`Elector`].
//! - **Session**: a replica's proof of life, one row in the database. Renewed every 2 s, it expires after 15 s.
//! - **Lease**: a session's hold on one name, valid exactly as long as the session is.
//! - **Term**: a name's fencing token. It grows with every claim and is never reset. See [`Term`].
//! - **Tenure**: one stretch of one replica running one work under one term. See [`Tenure`].
//! - **Ending**: why a tenure is over. See [`Ending`].
//! - **Fenced transaction**: a database transaction opened through the tenure. See [`Transaction`].
//! - **Keeper**: the part of the elector that talks to the database about sessions and names.
//!
//! # Works
//!
//! [`#[leader::work("name")]`](macro@work) registers a free async function; [`Builder::work`] registers a closure. A work
//! takes its [`Tenure`] and any number of [`State`]s, and returns nothing or a `Result`.
//!
//! The attribute leaves the function as it is: tests may call it, with a tenure from `test_util::tenure` (feature
//! `test-util`).
//!
//! What is wrong with a registration fails the build where the compiler can see it, and the start where it cannot:
//! [`Error::Registration`] lists all faults at once. One thing neither can see: the linker drops a crate that nobody
//! names, and its works with it. Write `use that_crate as _;`, and let [`Builder::expect`] check that every name is there.
//!
//! # How a tenure ends
//!
//! A work is told that its tenure is over, and returns by itself. [`Tenure::ended`], [`Tenure::until_ended`],
//! [`Tenure::sleep`], [`Tenure::check`] and [`Tenure::token`] are the ways to hear of it. With `on_end = "drop"` its future
//! is dropped instead, at its next `.await`.
//!
//! | What happens | Logged as | The name |
//! | --- | --- | --- |
//! | returns `Ok` while leading | INFO stepped down, `work returned` | given back; this replica waits for [`Timings::campaign`], others may take it at once |
//! | returns `Err` while leading | ERROR stepped down with an error | the same |
//! | panics | ERROR with message, place and backtrace | the same |
//! | returns after the ending: `Ok`, or an error whose chain is nothing but the ending | INFO stepped down, with the reason | given back; after a lost lease there is nothing to give back |
//! | returns after the ending with an error of its own, or with [`Ending::with`] | ERROR stepped down with an error | the same |
//! | the application's runtime is shut down under it | ERROR stepped down with an error, `runtime shut down` | the elector shuts down |
//! | still runs when the grace after a lost lease is over | ERROR; the process exits with [`EXIT_STATUS`] | moves when the lease expires |
//! | still runs at shutdown | waited for, and renewed meanwhile; [`Builder::shutdown_timeout`] bounds the wait, a second signal ends it | given back when it has returned |
//!
//! The outcome of a work is judged by the types in its error's chain of [`source`](std::error::Error::source)s, never by
//! text. `?` on [`Ended`] and [`TransactionError`] does the right thing, also through `anyhow` and `thiserror`.
//!
//! All of it is logged through [`tracing`](https://docs.rs/tracing). Without a subscriber a work that fails does so in silence.
//!
//! A name is given back only when its work is gone, tasks of [`Tenure::spawn`] included. Until then its lease is renewed.
//!
//! # Fenced transactions
//!
//! No lease is enough by itself: a process can be frozen between the moment it asked whether it still leads and the
//! moment its write arrives. [`Tenure::begin`] closes that gap. The first statement of a fenced transaction locks the row
//! of the work's name in share mode, if session and term in it are still this tenure's. As long as the lock is held, no
//! other replica can be elected to the name. So what the transaction does is done before a successor begins, or not at
//! all.
//!
//! - [`Tenure::begin`] opens one, on any pool of the elector's database; [`Tenure::transaction`] runs a closure in one.
//! - [`Tenure::fence`] fences a transaction that you began yourself. Commit is then yours, and so is the
//!   [`check`](Tenure::check) before it.
//! - [`Tenure::begin_elsewhere`] opens a transaction on another database. It is checked, not fenced.
//!
//! A transaction that is dropped unfinished is rolled back, and its connection closed instead of returned to the pool.
//! What the database rolled back before its commit, after a failed statement or a deadlock, is
//! [`TransactionError::RolledBack`]: run it again. When the tenure ends, [`Transaction::commit`] refuses and [`Tenure::transaction`] drops its closure. A transaction that
//! the work just holds is not reached from outside: the server ends it after 10 s of idleness (or a lease, if shorter).
//! On SQLite there is no server to do that.
//!
//! Keep a fenced transaction short. On PostgreSQL, MySQL and MariaDB it holds up nothing but the name's move. On SQLite it
//! holds the write lock of the whole file, renewals of leases included: stay below 5 s, and below 8 s at the very most.
//!
//! # Failures
//!
//! A replica counts the trust in its own session from the *start* of the last renewal that succeeded. It gives the
//! session up 10 s after that ([`Timings::deadline`]); the database lets others in after 15 s ([`Timings::lease`]). No
//! answer is not a good answer.
//!
//! - **The process crashes.** Another replica is elected when the lease has expired: within the lease and 0.3 s.
//! - **The database does not answer.** Renewals are tried again 2 s after the start of
//!   the last, or when that is given up after 5 s. At the deadline every work is told. Once it answers
//!   again, each replica opens a new session and campaigns.
//! - **The process is frozen** (SIGSTOP, a suspended machine). When it wakes up, its fences are refused, and
//!   [`Tenure::check`] fails at once, as it looks at the clock, which goes on through system suspend on Linux. The clock of a
//!   virtual machine that was paused may have stood still as well: then the next renewal tells.
//! - **The application's pool is exhausted, its threads blocked.** The keeper has a thread and a connection of its own;
//!   leases are renewed all the same.
//! - **A work does not stop** although its lease is lost. At the end of the grace, and in any case before the lease can
//!   expire, the process exits with status [`EXIT_STATUS`]. A process that was frozen until the lease could expire has
//!   [`Timings::margin`] to stop first.
//! - **Rows or tables are deleted** by an operator. Works are told, tables and rows are made anew, terms go on growing.
//!
//! # Databases
//!
//! PostgreSQL 12 and later, also behind PgBouncer in transaction mode; MySQL 8.0.1 and later; MariaDB 10.6 and later;
//! SQLite files. Two tables hold everything: see [`tables`]. Any other database fails the start if a work needs a lease.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `postgres`, `mysql`, `sqlite`: an elector on that database. They turn on the same feature of `sqlx`.
//! - `metrics`: what a replica does, as metrics of the crate [`metrics`](https://docs.rs/metrics); see `docs/operations.md`.
//! - `otel`: with a layer of `tracing-opentelemetry` installed, a tenure's trace id is that of its exported root span.
//! - `test-util`: tenures without a database, a database in memory, and a clock that tests move: the module `test_util`.
//!
//! No TLS is chosen for you. To reach a server through TLS, turn one of sqlx's `tls-…` features on in your own dependency
//! on `sqlx`. MySQL 8 with `caching_sha2_password` and without TLS needs its `mysql-rsa`.
//!
//! # Limits
//!
//! - Calls outside the database, HTTP or messages, are not fenced. Receivers deduplicate, or compare the
//!   [`term`](Tenure::term).
//! - A plain write outside a fenced transaction is not checked.
//! - A database that loses acknowledged commits in a failover can hand a name out twice: replicate synchronously.
//! - A step of the database server's clock shortens or lengthens leases.
//! - On a Galera cluster or with several writing nodes, fenced transactions hold only as long as every replica writes to
//!   the same node.
//! - A process frozen in the middle of a `COPY` on PostgreSQL is beyond the server's own limits: a standby ends that
//!   transaction, if its role may end the other's.
//! - A frozen writer blocks every writer of a SQLite file, for as long as it is frozen.
//! - On SQLite, what is written after a statement that rolled the whole transaction back, and whose error was ignored, is not
//!   fenced. The commit is refused.

// What one feature leaves unused another one uses; the build with all of them is held to these lints.
#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite", feature = "test-util")),
    allow(
        clippy::needless_pass_by_value,
        dead_code,
        irrefutable_let_patterns,
        unreachable_pub,
        unused_imports,
        unused_macros,
        unused_variables
    )
)]

#[doc(hidden)]
pub mod __private;
mod clock;
mod crew;
mod database;
mod elector;
mod error;
mod event;
mod exit;
mod fault;
mod keeper;
#[cfg(feature = "metrics")]
mod metrics;
mod name;
mod panic;
mod protocol;
mod race;
mod random;
mod registry;
mod run;
mod running;
mod shutdown;
mod state;
mod status;
mod store;
pub mod tables;
mod tasks;
mod tenure;
#[cfg(any(test, feature = "test-util"))]
pub mod test_util;
mod timings;
mod trace;
mod transaction;
mod trouble;
mod watchdog;
mod work;

pub use database::Database;
pub use elector::{Builder, Elector};
pub use error::Error;
pub use event::{Event, EventKind};
pub use fault::{Fault, Place};
pub use leader_macros::work;
pub use name::{NameError, WorkName};
pub use protocol::{Ending, Term};
pub use running::Running;
pub use state::State;
pub use status::{Holder, Lease, Role, Status, WorkStatus, status};
pub use tenure::{Ended, Failed, Tenure};
pub use timings::{Timings, TimingsError};
pub use transaction::{FenceTarget, Fenced, Transaction, TransactionError};
pub use watchdog::{EXIT_STATUS, Overrun};

/// The snippets of the guides compile.
#[cfg(all(doctest, feature = "postgres", feature = "test-util"))]
#[doc(hidden)]
pub mod guides {
    #[doc = include_str!("../../README.md")]
    pub mod readme {}

    #[doc = include_str!("../../docs/operations.md")]
    pub mod operations {}
}
