//! Fences on SQLite.

use sqlx::{AssertSqlSafe, Database, Pool, Row, SqlSafeStr, SqlStr, Sqlite, SqliteConnection, raw_sql};

use sqlx_core::transaction::TransactionManager;

use super::Key;
use super::sealed::{Commit, Dialect};
use crate::status::{Lease, lease, leases};
use crate::store::hex;
use crate::store::sqlite::{NOW, Turnstile, in_memory};

impl Dialect for Sqlite {
    const HOLDS_UP_THE_KEEPER: bool = true;

    async fn pass(pool: &Pool<Self>) {
        if in_memory(pool.connect_options().get_filename()) {
            return;
        }
        Turnstile::beside(pool.connect_options().get_filename()).pass().await;
    }

    fn statement(_key: &Key<'_>) -> Option<SqlStr> {
        // A deferred transaction that turns to writing fails at once if anybody else has written since.
        Some("BEGIN IMMEDIATE".into_sql_str())
    }

    async fn begin_bare(connection: &mut SqliteConnection, _key: &Key<'_>) -> sqlx::Result<()> {
        <Self as Database>::TransactionManager::begin(connection, None).await?;
        sqlx::query("SAVEPOINT leader_fence").execute(connection).await.map(drop)
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
        // The transaction has the write lock, and so the whole file: there is nothing left to lock. By the savepoint the
        // commit knows the transaction again.
        let savepoint = if key.own { "; SAVEPOINT leader_fence" } else { "" };
        let statement = format!(
            "SELECT 1 FROM leader_names WHERE namespace = {} AND name = {} AND session_id = '{}' AND term = {}{savepoint}",
            text(key.namespace),
            text(key.name),
            key.session,
            key.term,
        );
        let rows = raw_sql(AssertSqlSafe(statement)).fetch_all(connection).await?;
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
        // It also waits for all that was asked of the worker before, a nested `begin` that was dropped among it.
        if let Err(error) = sqlx::query("RELEASE SAVEPOINT leader_fence").execute(&mut *connection).await {
            let gone = error
                .as_database_error()
                .is_some_and(|error| error.message().starts_with("no such savepoint"));
            return if gone { Ok(Commit::Gone) } else { Err(error) };
        }
        <Self as Database>::TransactionManager::commit(connection).await?;
        Ok(Commit::Done)
    }

    async fn leases(pool: &Pool<Self>) -> sqlx::Result<Vec<Lease>> {
        let rows = sqlx::query(leases(NOW)).fetch_all(pool).await?;
        rows.into_iter().map(|row| lease!(row)).collect()
    }

    fn is_conflict(error: &sqlx::Error) -> bool {
        // SQLITE_BUSY_SNAPSHOT: somebody wrote since this transaction first read.
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| code == "517")
    }

    fn is_missing(error: &sqlx::Error) -> bool {
        error.as_database_error().is_some_and(|error| error.message().starts_with("no such table: leader_"))
    }
}

/// A text as an expression that no quote can end.
fn text(text: &str) -> String {
    format!("CAST(x'{}' AS TEXT)", hex(text))
}
