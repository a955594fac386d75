//! Transactions that commit only if nobody else has been elected since they began.
//!
//! The first statement of a fenced transaction locks the row of the work's name in share mode, if session and term are
//! still this tenure's (I2). As long as the lock is held no claim of the name can succeed (I3), so what the transaction
//! does is done before a successor begins, whatever happens to this process meanwhile.

mod error;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod sealed;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use error::TransactionError;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Database, Pool};
use sqlx_core::transaction::TransactionManager;

use crate::protocol::Ending;
use crate::race::{First, race};
use crate::tenure::Tenure;
use sealed::Commit;

/// A database that carries fenced transactions: PostgreSQL, MySQL/MariaDB and SQLite, each behind its feature.
pub trait Fenced: Database + sealed::Dialect {}

impl<DB: sealed::Dialect> Fenced for DB {}

/// What [`Tenure::fence`] can fence: a transaction of sqlx, or a connection of one of the databases that is in one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be fenced",
    label = "not a transaction or connection of sqlx on PostgreSQL, MySQL or SQLite",
    note = "pass the `sqlx::Transaction` or its connection: `tenure.fence(&mut tx)`"
)]
pub trait FenceTarget: sealed::Target {}

impl<T: sealed::Target> FenceTarget for T {}

/// An open transaction that belongs to a tenure.
///
/// It derefs to the connection: pass `&mut *tx` to sqlx, and `&mut tx` to functions that take the connection.
/// [`commit`](Self::commit) ends it; dropped, it is rolled back. A transaction that is dropped unfinished, or in the
/// middle of a statement, closes its connection instead of returning it to the pool: what a half-finished connection
/// would do next is not known.
///
/// The server ends a transaction that sits idle for more than 10 s (or the lease, if shorter), so that a process that is
/// frozen inside one does not hold its successor up for longer. (There is no such bound on SQLite, nor on PostgreSQL for one of
/// [`Tenure::begin_elsewhere`].)
#[must_use = "a transaction that is dropped is rolled back"]
pub struct Transaction<DB: Fenced> {
    tenure: Tenure,
    /// Taken when the transaction is over.
    connection: Option<PoolConnection<DB>>,
    /// A nested `begin` is under way, or was dropped half-way.
    nesting: bool,
}

impl<DB: Fenced> Transaction<DB> {
    /// Commits, if the tenure is not over and the transaction is still the one that was begun.
    ///
    /// Not cancel safe: the outcome of a commit that is dropped is not known; the connection is closed.
    ///
    /// # Errors
    ///
    /// [`TransactionError::Ended`] if the tenure is over, and [`TransactionError::RolledBack`] if the database rolled
    /// back meanwhile: this commits nothing; the variant says what may have been committed before. [`TransactionError::OutcomeUnknown`] if the lease was lost while the
    /// database gave no answer. [`TransactionError::Sqlx`] if the database refused, or if the connection broke, and then
    /// the outcome is not known either.
    pub async fn commit(mut self) -> Result<(), TransactionError> {
        // Dropped on the way out, the connection is closed and the server rolls back. Nobody waits for the answer of a
        // database that may be out of reach.
        self.tenure.check()?;
        let tenure = self.tenure.clone();
        match race(self.finish(), tenure.lost_for_long()).await {
            First::One(done) => done,
            First::Other(ended) => Err(TransactionError::OutcomeUnknown(ended)),
        }
    }

    /// Rolls back and returns the connection to the pool.
    ///
    /// Cancel safe: dropped half-way it closes the connection, which rolls back too.
    ///
    /// # Errors
    ///
    /// [`TransactionError::Sqlx`] if the database refused or the connection broke, [`TransactionError::Ended`] if the lease
    /// was lost while the database gave no answer. The connection is closed then: the transaction is rolled back all the
    /// same.
    pub async fn rollback(mut self) -> Result<(), TransactionError> {
        let tenure = self.tenure.clone();
        match race(self.undo(), tenure.lost_for_long()).await {
            First::One(done) => done,
            First::Other(ended) => Err(ended.into()),
        }
    }

    /// Opens a savepoint, as sqlx's own `begin` does on a connection that is in a transaction.
    ///
    /// Not cancel safe: dropped half-way, the transaction is not used any more. [`commit`](Self::commit) refuses, and
    /// touching its connection panics. (sqlx's own rolls the whole transaction back then, and what is written next would
    /// not be fenced.)
    ///
    /// # Errors
    ///
    /// What the database says; the transaction is not used any more then either.
    pub async fn begin(&mut self) -> sqlx::Result<sqlx::Transaction<'_, DB>> {
        // By way of `deref_mut`, which refuses a transaction that is gone.
        let _: &mut DB::Connection = self;
        let Self { connection, nesting, .. } = self;
        let connection = connection.as_mut().ok_or(sqlx::Error::WorkerCrashed)?;
        *nesting = true;
        let nested = Connection::begin(&mut **connection).await?;
        *nesting = false;
        Ok(nested)
    }

    /// A fence that was refused leaves a clean connection, or a transaction to roll back.
    async fn give_back(mut self) -> Result<(), TransactionError> {
        if DB::TransactionManager::get_transaction_depth(self.connection()?) > 0 {
            return self.rollback().await;
        }
        self.hand_back();
        Ok(())
    }

    /// The tenure that it belongs to.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    async fn finish(&mut self) -> Result<(), TransactionError> {
        if !self.is_open()? {
            return Err(TransactionError::RolledBack);
        }
        let connection: &mut DB::Connection = self.connection()?;
        match DB::commit(connection).await? {
            Commit::Done => self.hand_back(),
            // Dropped, it is closed.
            Commit::Unclean => {}
            Commit::Gone => return Err(TransactionError::RolledBack),
        }
        Ok(())
    }

    async fn undo(&mut self) -> Result<(), TransactionError> {
        // What is open on it is not known otherwise: it is closed, which rolls all of it back.
        if self.is_open()? {
            let connection: &mut DB::Connection = self.connection()?;
            DB::rollback(connection).await?;
            if DB::TransactionManager::get_transaction_depth(connection) == 0 {
                self.hand_back();
            }
        }
        Ok(())
    }

    /// Whether the transaction is the one that was begun, and no savepoint of it is open, as far as sqlx has heard.
    fn is_open(&mut self) -> Result<bool, TransactionError> {
        let depth = DB::TransactionManager::get_transaction_depth(self.connection()?);
        Ok(!self.nesting && (depth == 1 || (depth > 1 && DB::DEPTH_LAGS)))
    }

    fn connection(&mut self) -> Result<&mut PoolConnection<DB>, TransactionError> {
        self.connection.as_mut().ok_or(TransactionError::RolledBack)
    }

    /// Returns the connection to the pool: only here is it known to be clean.
    fn hand_back(&mut self) {
        drop(self.connection.take());
    }
}

impl<DB: Fenced> Deref for Transaction<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &Self::Target {
        self.connection.as_ref().expect("the connection is there until the transaction is over")
    }
}

impl<DB: Fenced> DerefMut for Transaction<DB> {
    /// # Panics
    ///
    /// If the transaction is gone: a nested `begin` that was dropped half-way rolls the whole of it back (sqlx issue
    /// 4385). Whatever was written then would neither be fenced nor wait for the commit.
    fn deref_mut(&mut self) -> &mut Self::Target {
        let connection =
            self.connection.as_mut().expect("the connection is there until the transaction is over");
        assert!(
            !self.nesting && DB::TransactionManager::get_transaction_depth(connection) > 0,
            "the fenced transaction was rolled back under its user, by a nested `begin` that was dropped; run it again"
        );
        connection
    }
}

impl<DB: Fenced> Drop for Transaction<DB> {
    /// Dropping sqlx's own guard only queues a ROLLBACK, and a dropped `begin` leaves the transaction open in the pool
    /// (sqlx issues 4385 and 4393). A connection that is gone is rolled back by the server, at once.
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

impl<DB: Fenced> fmt::Debug for Transaction<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("tenure", &self.tenure).finish_non_exhaustive()
    }
}

/// What a fence compares with the row of the name.
#[doc(hidden)]
#[derive(Debug)]
pub struct Key<'t> {
    namespace: &'t str,
    name: &'t str,
    session: String,
    term: i64,
    trace_id: &'t str,
    /// Whether the transaction was begun here, and its end will be seen.
    own: bool,
    /// After which the server ends an idle transaction.
    idle: Duration,
}

impl Tenure {
    /// Opens a fenced transaction on the elector's database, on any pool of it.
    ///
    /// It costs no round trip more than a bare transaction on PostgreSQL, where the fence comes with `BEGIN`; two on MySQL
    /// and MariaDB; and a read on SQLite, where it is `BEGIN IMMEDIATE`.
    ///
    /// It waits neither for an exhausted pool nor for a database out of reach once the tenure is over.
    ///
    /// Cancel safe: dropped at any point, it leaves no open transaction in the pool.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] mod example {
    /// use leader::{Tenure, TransactionError};
    ///
    /// async fn mark_sent(tenure: &Tenure, pool: &sqlx::SqlitePool, id: i64) -> Result<(), TransactionError> {
    ///     let mut tx = tenure.begin(pool).await?;
    ///     sqlx::query("UPDATE outbox SET sent = true WHERE id = ?").bind(id).execute(&mut *tx).await?;
    ///     tx.commit().await
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`TransactionError::Ended`] before the first statement of the work if the tenure is over;
    /// [`TransactionError::Unknown`] if the pool is on another database; [`TransactionError::Conflict`] after three tries that met
    /// a concurrent change; otherwise what the pool or the database said.
    pub async fn begin<DB: Fenced>(&self, pool: &Pool<DB>) -> Result<Transaction<DB>, TransactionError> {
        /// A database whose default is SERIALIZABLE may refuse the first statement of a transaction.
        const TRIES: u32 = 3;

        let mut tries = 1;
        loop {
            self.check()?;
            DB::pass(pool).await;
            // Nobody waits for a database out of reach, or for an exhausted pool, once the work should end.
            match self.until_ended(self.try_begin(pool)).await? {
                Err(TransactionError::Conflict(_)) if tries < TRIES => tries += 1,
                begun => return begun,
            }
        }
    }

    async fn try_begin<DB: Fenced>(&self, pool: &Pool<DB>) -> Result<Transaction<DB>, TransactionError> {
        let mut transaction = self.open(pool).await?;
        self.check()?;
        let key = self.key(true);
        let begun = DB::begin(transaction.connection()?, &key).await;
        match begun {
            Ok(true) => Ok(transaction),
            Ok(false) => {
                // Before the keeper is asked: on SQLite it waits for the file that this transaction holds.
                let _ = transaction.give_back().await;
                Err(self.stranger().await)
            }
            Err(error) => {
                // The refusal is the news, not how its rollback went.
                let _ = transaction.rollback().await;
                Err(self.refusal::<DB>(error).await)
            }
        }
    }

    /// Runs a closure in a fenced transaction: commits when it returns `Ok`, rolls back when it returns `Err` or the
    /// tenure ends meanwhile, in which case its future is dropped.
    ///
    /// In the closure the connection is `&mut **tx`. Where nothing else names the error's type, end it with
    /// `Ok::<_, TransactionError>(…)` or `anyhow::Ok(…)`.
    ///
    /// Dropped before its commit, it is rolled back; dropped during the commit, the outcome is not known. Either way no open
    /// transaction is left in the pool.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] mod example {
    /// use leader::{Tenure, TransactionError};
    ///
    /// async fn mark_sent(tenure: &Tenure, pool: &sqlx::SqlitePool, id: i64) -> Result<(), TransactionError> {
    ///     tenure
    ///         .transaction(pool, async |tx| {
    ///             sqlx::query("UPDATE outbox SET sent = true WHERE id = ?").bind(id).execute(&mut **tx).await?;
    ///             Ok(())
    ///         })
    ///         .await
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`begin`](Self::begin) and [`Transaction::commit`], and the closure's own.
    pub async fn transaction<DB, T, E>(
        &self,
        pool: &Pool<DB>,
        work: impl AsyncFnOnce(&mut Transaction<DB>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        DB: Fenced,
        E: From<TransactionError>,
    {
        let mut transaction = self.begin(pool).await?;
        let done = self.until_ended(work(&mut transaction)).await;
        match done {
            Ok(Ok(value)) => {
                transaction.commit().await?;
                Ok(value)
            }
            Ok(Err(error)) => {
                // The closure's error is the news, not how its rollback went.
                let _ = self.until_ended(transaction.rollback()).await;
                Err(error)
            }
            // Dropped in the middle of a statement, maybe: its connection is closed, not used again.
            Err(ended) => Err(TransactionError::from(ended).into()),
        }
    }

    /// Opens a transaction on another database than the elector's.
    ///
    /// **Weaker than [`begin`](Self::begin).** The elector's database is asked just before the first statement whether
    /// this tenure goes on, and `commit` looks at the local deadline; but nothing holds a successor back in between. A
    /// process that is frozen between the question and the commit can commit beside its successor. Store the
    /// [`term`](Self::term) with the data and refuse smaller ones if that matters.
    ///
    /// Cancel safe, like [`begin`](Self::begin).
    ///
    /// # Errors
    ///
    /// [`TransactionError::Ended`] if the tenure is over; otherwise what the pool or the database said.
    pub async fn begin_elsewhere<DB: Fenced>(
        &self,
        pool: &Pool<DB>,
    ) -> Result<Transaction<DB>, TransactionError> {
        self.check()?;
        let begun = self.until_ended(async {
            let mut transaction = self.open(pool).await?;
            DB::begin_bare(transaction.connection()?, &self.key(true)).await?;
            Ok::<_, TransactionError>(transaction)
        });
        let transaction = begun.await??;
        self.confirm().await?;
        Ok(transaction)
    }

    /// Fences a transaction that you opened yourself on the elector's database, from here to its end.
    ///
    /// Call it before any savepoint: rolling a savepoint back releases the locks taken since, this one too. Commit is
    /// yours as well: [`check`](Self::check) just before it, so that a tenure that is over is refused before the
    /// database is asked. Roll back if a statement failed: `COMMIT` would be a rollback without an error on PostgreSQL, and
    /// after a deadlock on MySQL and MariaDB nothing is fenced or in a transaction any more. On SQLite it takes the write
    /// lock. On MySQL and MariaDB it leaves the bound on idle transactions on the connection, as nothing tells it of the
    /// transaction's end.
    ///
    /// Not cancel safe: dropped half-way, roll back.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] mod example {
    /// use leader::{Tenure, TransactionError};
    ///
    /// async fn mark_sent(tenure: &Tenure, pool: &sqlx::SqlitePool, id: i64) -> Result<(), TransactionError> {
    ///     let mut tx = pool.begin().await?;
    ///     tenure.fence(&mut tx).await?;
    ///     sqlx::query("UPDATE outbox SET sent = true WHERE id = ?").bind(id).execute(&mut *tx).await?;
    ///     tenure.check()?;
    ///     Ok(tx.commit().await?)
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`TransactionError::NotInTransaction`] outside a transaction; [`TransactionError::Conflict`] if the transaction
    /// must be run again; otherwise those of [`begin`](Self::begin). Roll the transaction back on each of them.
    pub async fn fence<T: FenceTarget>(&self, transaction: &mut T) -> Result<(), TransactionError> {
        self.fence_on::<T::Database>(transaction.connection()).await
    }

    async fn fence_on<DB: Fenced>(&self, connection: &mut DB::Connection) -> Result<(), TransactionError> {
        const BRIEFLY: Duration = Duration::from_millis(250);

        self.check()?;
        if !connection.is_in_transaction() {
            return Err(TransactionError::NotInTransaction);
        }
        let key = self.key(false);
        let held = async {
            DB::prepare_fence(connection, &key).await?;
            DB::hold(connection, &key).await
        };
        match held.await {
            Ok(true) => Ok(()),
            Ok(false) if DB::HOLDS_UP_THE_KEEPER => {
                // The transaction holds the file: the keeper gets an answer after its end only. A larger term is one.
                if DB::last_term(connection, &key).await?.is_some_and(|last| last > key.term) {
                    self.lose(self.0.trust.now());
                    return Err(Ending::LeaseLost.into());
                }
                let asked = tokio::time::timeout(BRIEFLY, self.stranger());
                Err(asked.await.unwrap_or(TransactionError::Unknown))
            }
            Ok(false) => Err(self.stranger().await),
            Err(error) if DB::HOLDS_UP_THE_KEEPER && DB::is_missing(&error) => Err(TransactionError::Unknown),
            Err(error) => Err(self.refusal::<DB>(error).await),
        }
    }

    async fn open<DB: Fenced>(&self, pool: &Pool<DB>) -> Result<Transaction<DB>, TransactionError> {
        let connection = Some(pool.acquire().await?);
        Ok(Transaction { tenure: self.clone(), connection, nesting: false })
    }

    /// What it means that a database does not know the tenure: either somebody else was elected and nobody here has heard
    /// of it yet, or it is another database.
    async fn stranger(&self) -> TransactionError {
        match self.confirm().await {
            Ok(()) => TransactionError::Unknown,
            Err(ended) => ended.into(),
        }
    }

    /// What the failure of a fence means.
    async fn refusal<DB: Fenced>(&self, error: sqlx::Error) -> TransactionError {
        if DB::is_conflict(&error) {
            TransactionError::Conflict(error)
        } else if DB::is_missing(&error) {
            self.stranger().await
        } else {
            error.into()
        }
    }

    fn key(&self, own: bool) -> Key<'_> {
        Key {
            namespace: self.0.namespace.as_str(),
            name: self.name(),
            session: self.0.session.to_string(),
            term: self.term().get(),
            trace_id: self.trace_id(),
            own,
            idle: self.0.trust.fence_idle(),
        }
    }
}
