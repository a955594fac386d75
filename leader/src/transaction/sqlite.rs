//! Fences on SQLite.

use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, Database, Pool, Row, SqlSafeStr, Sqlite, SqliteConnection, raw_sql};
use sqlx_core::transaction::TransactionManager;

use super::Key;
use super::sealed::{Commit, Dialect, answers};
use crate::status::{Lease, lease, leases};
use crate::store::sqlite::{NOW, Turnstile, in_memory, is_table_missing};

/// A text that is no JSON was read as such.
const NO_JSON: &str = "malformed JSON";

impl Dialect for Sqlite {
    const HOLDS_UP_THE_KEEPER: bool = true;

    const DEPTH_LAGS: bool = true;

    async fn pass(pool: &Pool<Self>) {
        if in_memory(pool.connect_options().get_filename()) {
            return;
        }
        Turnstile::beside(pool.connect_options().get_filename()).pass().await;
    }

    async fn begin(connection: &mut SqliteConnection, key: &Key<'_>) -> sqlx::Result<bool> {
        // One order to the thread that runs the statements, which answers with nothing but an error. The transaction that
        // an error leaves behind, sqlx does not know of. IMMEDIATE, as a deferred transaction that turns to writing fails
        // at once if anybody else has written since. By the savepoint the commit knows the transaction again.
        let statement = format!(
            "BEGIN IMMEDIATE; SELECT json(CASE WHEN EXISTS ({}) THEN '1' ELSE 'refused' END); SAVEPOINT leader_fence",
            fence(key)
        );
        let statement = AssertSqlSafe(statement).into_sql_str();
        match <Self as Database>::TransactionManager::begin(connection, Some(statement)).await {
            Ok(()) => Ok(true),
            Err(error) if error.as_database_error().is_some_and(|error| error.message() == NO_JSON) => {
                raw_sql("ROLLBACK").execute(connection).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn begin_bare(connection: &mut SqliteConnection, _key: &Key<'_>) -> sqlx::Result<()> {
        let statement = "BEGIN; SAVEPOINT leader_fence".into_sql_str();
        <Self as Database>::TransactionManager::begin(connection, Some(statement)).await
    }

    async fn prepare_fence(connection: &mut SqliteConnection, key: &Key<'_>) -> sqlx::Result<()> {
        // Somebody else began this transaction, as a deferred one maybe: a write takes the write lock. A look
        // before it would fix the snapshot, and every commit of somebody else in between would be a conflict.
        sqlx::query("UPDATE leader_names SET term = term WHERE namespace = ?1 AND name = ?2 AND session_id = ?3 AND term = ?4")
            .bind(key.namespace.to_owned())
            .bind(key.name.to_owned())
            .bind(key.session.clone())
            .bind(key.term)
            .execute(connection)
            .await
            .map(drop)
    }

    async fn hold(connection: &mut SqliteConnection, key: &Key<'_>) -> sqlx::Result<bool> {
        // The transaction has the write lock, and so the whole file: there is nothing left to lock.
        let rows = raw_sql(AssertSqlSafe(fence(key))).fetch_all(connection).await?;
        Ok(!rows.is_empty())
    }

    async fn last_term(connection: &mut SqliteConnection, key: &Key<'_>) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar("SELECT term FROM leader_names WHERE namespace = ?1 AND name = ?2")
            .bind(key.namespace.to_owned())
            .bind(key.name.to_owned())
            .fetch_optional(connection)
            .await
    }

    async fn commit(connection: &mut SqliteConnection) -> sqlx::Result<Commit> {
        // It comes after all that was asked of the worker before, a nested `begin` that was dropped among it. The empty
        // transaction is for sqlx, which believes in the old one, and for its ROLLBACK, for which nobody waits.
        let orders = "RELEASE SAVEPOINT leader_fence; COMMIT; BEGIN";
        let (answered, error) = answers(raw_sql(orders).fetch_many(&mut *connection)).await;
        let unknown = |error: &dyn DatabaseError| error.message().starts_with("no such savepoint");
        match (answered, error) {
            // A savepoint of the work's that was dropped has been rolled back by now. One that is still open was committed,
            // and sqlx believes in it.
            (3, None) if <Self as Database>::TransactionManager::get_transaction_depth(connection) == 1 => {
                <Self as Database>::TransactionManager::start_rollback(connection);
                Ok(Commit::Done)
            }
            (2.., _) => Ok(Commit::Unclean),
            (_, Some(error)) if error.as_database_error().is_some_and(unknown) => Ok(Commit::Gone),
            (_, error) => Err(error.unwrap_or(sqlx::Error::WorkerCrashed)),
        }
    }

    async fn leases(pool: &Pool<Self>) -> sqlx::Result<Vec<Lease>> {
        let rows = sqlx::query(leases(NOW)).fetch_all(pool).await?;
        rows.into_iter().map(|row| lease!(row)).collect()
    }

    fn is_conflict(error: &sqlx::Error) -> bool {
        // SQLITE_BUSY_SNAPSHOT: somebody wrote since this transaction first read.
        error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| code == "517")
    }

    fn is_missing(error: &sqlx::Error) -> bool {
        is_table_missing(error)
    }
}

/// The row that a fence reads.
fn fence(key: &Key<'_>) -> String {
    format!(
        "SELECT 1 FROM leader_names WHERE namespace = {} AND name = {} AND session_id = '{}' AND term = {}",
        text(key.namespace),
        text(key.name),
        key.session,
        key.term,
    )
}

/// A text as a literal. Names hold no control characters, and a quote is all that could end it.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
