//! What the databases that carry fenced transactions have in common, closed to others.

use std::pin::pin;

use futures::{Stream, StreamExt};
use sqlx::Either;
use sqlx_core::transaction::TransactionManager;

use super::{Database, Key, Pool};

use crate::status::Lease;

/// What is in a transaction, maybe.
#[doc(hidden)]
pub trait Target {
    type Database: super::Fenced;

    fn connection(&mut self) -> &mut <Self::Database as Database>::Connection;
}

impl<DB: super::Fenced> Target for sqlx::Transaction<'_, DB> {
    type Database = DB;

    fn connection(&mut self) -> &mut DB::Connection {
        self
    }
}

impl<DB: super::Fenced> Target for sqlx::pool::PoolConnection<DB> {
    type Database = DB;

    fn connection(&mut self) -> &mut DB::Connection {
        self
    }
}

macro_rules! target {
    ($feature:literal, $connection:ty, $database:ty) => {
        #[cfg(feature = $feature)]
        impl Target for $connection {
            type Database = $database;

            fn connection(&mut self) -> &mut Self {
                self
            }
        }
    };
}

target!("postgres", sqlx::PgConnection, sqlx::Postgres);
target!("mysql", sqlx::MySqlConnection, sqlx::MySql);
target!("sqlite", sqlx::SqliteConnection, sqlx::Sqlite);

/// What became of a commit that the database answered.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    Done,
    /// It is done, and the connection is not as it was before.
    Unclean,
    /// It was not the transaction any more that was begun: nothing is committed.
    Gone,
}

/// How many statements of a message were answered, and the error that ended it.
pub(super) async fn answers<R, T>(
    stream: impl Stream<Item = sqlx::Result<Either<R, T>>> + Send,
) -> (usize, Option<sqlx::Error>) {
    let mut stream = pin!(stream);
    let mut answered = 0;
    while let Some(item) = stream.next().await {
        match item {
            Ok(Either::Left(_)) => answered += 1,
            Ok(Either::Right(_)) => {}
            Err(error) => return (answered, Some(error)),
        }
    }
    (answered, None)
}

/// What a fenced transaction says to a database.
#[doc(hidden)]
pub trait Dialect: Database {
    /// Whether a transaction that has written keeps the keeper waiting.
    const HOLDS_UP_THE_KEEPER: bool = false;

    /// Whether sqlx hears late that a savepoint which was dropped is gone.
    const DEPTH_LAGS: bool = false;

    /// Lets the keeper go first.
    fn pass(pool: &Pool<Self>) -> impl Future<Output = ()> + Send {
        let _ = pool;
        async {}
    }

    /// Begins a transaction and fences it; whether it is held. If not, the transaction may be open all the same: sqlx
    /// knows.
    fn begin(
        connection: &mut Self::Connection,
        key: &Key<'_>,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// What `begin` would have set, in a transaction that somebody else began.
    fn prepare_fence(
        connection: &mut Self::Connection,
        key: &Key<'_>,
    ) -> impl Future<Output = sqlx::Result<()>> + Send {
        let _ = (connection, key);
        async { Ok(()) }
    }

    /// Locks the row of the name in share mode if session and term are the given ones.
    fn hold(
        connection: &mut Self::Connection,
        key: &Key<'_>,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// The term of the name, by what the transaction sees, where the keeper cannot be asked.
    fn last_term(
        connection: &mut Self::Connection,
        key: &Key<'_>,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send {
        let _ = (connection, key);
        async { Ok(None) }
    }

    /// Begins a transaction that is not fenced, and marks it: by the mark the commit knows it again.
    fn begin_bare(
        connection: &mut Self::Connection,
        key: &Key<'_>,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Commits a transaction that was begun here, and takes back what was set for longer than it lasts.
    fn commit(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<Commit>> + Send;

    /// Rolls one back.
    fn rollback(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<()>> + Send {
        Self::TransactionManager::rollback(connection)
    }

    /// Every name and who holds it.
    fn leases(pool: &Pool<Self>) -> impl Future<Output = sqlx::Result<Vec<Lease>>> + Send;

    /// The transaction must be run again.
    fn is_conflict(error: &sqlx::Error) -> bool;

    /// The tables of leases are not in this database.
    fn is_missing(error: &sqlx::Error) -> bool;
}
