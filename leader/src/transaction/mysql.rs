//! Fences on MySQL and MariaDB.

use sqlx::{AssertSqlSafe, Database, MySql, MySqlConnection, Pool, Row, SqlSafeStr, raw_sql};
use sqlx_core::transaction::TransactionManager;

use super::Key;
use super::sealed::{Commit, Dialect, answers};
use crate::status::{Lease, lease, leases};
use crate::store::mysql::{NOW, bytes, number};

/// Which of the two servers this is decides what bounds a frozen holder, and only the server knows: each reads its
/// own half of the statement. MariaDB has a limit for idle transactions; on MySQL the one for idle connections must
/// do. Neither has a form that lasts for one transaction, so the old values are kept and put back.
///
/// A deadlock rolls the whole transaction back, its fence with it, and says so with the error of one statement. Without
/// `autocommit` what follows waits for the commit all the same, and is refused there.
fn bound(key: &Key<'_>) -> String {
    let idle = key.idle.as_secs();
    let autocommit =
        if key.own { ", @leader_autocommit = @@SESSION.autocommit, SESSION autocommit = 0" } else { "" };
    format!(
        "SET @leader_fence = {term}{autocommit} \
         /*M!100600 , @leader_idle = @@SESSION.idle_transaction_timeout, @leader_write = @@SESSION.net_write_timeout, \
         @leader_read = @@SESSION.net_read_timeout, SESSION idle_transaction_timeout = IF(@@SESSION.idle_transaction_timeout BETWEEN 1 AND {idle}, @@SESSION.idle_transaction_timeout, {idle}), \
         SESSION net_write_timeout = LEAST(@@SESSION.net_write_timeout, {idle}), \
         SESSION net_read_timeout = LEAST(@@SESSION.net_read_timeout, {idle}) */ \
         /*!80000 , @leader_idle = @@SESSION.wait_timeout, @leader_write = @@SESSION.net_write_timeout, \
         @leader_read = @@SESSION.net_read_timeout, SESSION wait_timeout = LEAST(@@SESSION.wait_timeout, {idle}), \
         SESSION net_write_timeout = LEAST(@@SESSION.net_write_timeout, {idle}), \
         SESSION net_read_timeout = LEAST(@@SESSION.net_read_timeout, {idle}) */",
        term = key.term,
    )
}

/// Puts back what `bound` set, outside the transaction: switching `autocommit` on commits.
const LEAVE: &str = "SET SESSION autocommit = @leader_autocommit \
     /*M!100600 , SESSION idle_transaction_timeout = @leader_idle, SESSION net_write_timeout = @leader_write, \
     SESSION net_read_timeout = @leader_read */ \
     /*!80000 , SESSION wait_timeout = @leader_idle, SESSION net_write_timeout = @leader_write, \
     SESSION net_read_timeout = @leader_read */";

impl Dialect for MySql {
    async fn begin(connection: &mut MySqlConnection, key: &Key<'_>) -> sqlx::Result<bool> {
        let statement = AssertSqlSafe(format!("{}; START TRANSACTION", bound(key))).into_sql_str();
        <Self as Database>::TransactionManager::begin(connection, Some(statement)).await?;
        Self::hold(connection, key).await
    }

    async fn begin_bare(connection: &mut MySqlConnection, key: &Key<'_>) -> sqlx::Result<()> {
        let statement = AssertSqlSafe(format!("{}; START TRANSACTION; SAVEPOINT leader_fence", bound(key)))
            .into_sql_str();
        <Self as Database>::TransactionManager::begin(connection, Some(statement)).await
    }

    async fn prepare_fence(connection: &mut MySqlConnection, key: &Key<'_>) -> sqlx::Result<()> {
        // It stays on this connection: there is no end of the transaction to hook on.
        raw_sql(AssertSqlSafe(bound(key))).execute(connection).await.map(drop)
    }

    async fn hold(connection: &mut MySqlConnection, key: &Key<'_>) -> sqlx::Result<bool> {
        // By the savepoint the commit knows the transaction again.
        let savepoint = if key.own { "; SAVEPOINT leader_fence" } else { "" };
        let statement = format!(
            "SELECT 1 FROM leader_names WHERE namespace = {} AND name = {} AND session_id = '{}' AND term = {} \
             LOCK IN SHARE MODE /*trace_id='{}'*/{savepoint}",
            bytes(key.namespace),
            bytes(key.name),
            key.session,
            key.term,
            key.trace_id,
        );
        let rows = raw_sql(AssertSqlSafe(statement)).fetch_all(connection).await?;
        Ok(!rows.is_empty())
    }

    async fn commit(connection: &mut MySqlConnection) -> sqlx::Result<Commit> {
        /// `SAVEPOINT … does not exist`
        const NO_SAVEPOINT: u16 = 1305;

        let message = format!("RELEASE SAVEPOINT leader_fence; COMMIT; {LEAVE}");
        let outcome = match answers(raw_sql(AssertSqlSafe(message)).fetch_many(&mut *connection)).await {
            (_, None) => Commit::Done,
            (0, Some(error)) if number(&error) == Some(NO_SAVEPOINT) => return Ok(Commit::Gone),
            // Committed is committed, whatever became of the connection then.
            (2.., Some(_)) => Commit::Unclean,
            (_, Some(error)) => return Err(error),
        };
        // sqlx believes in the old transaction: its ROLLBACK goes out with the next message and finds none.
        <Self as Database>::TransactionManager::start_rollback(connection);
        Ok(outcome)
    }

    async fn rollback(connection: &mut MySqlConnection) -> sqlx::Result<()> {
        raw_sql(AssertSqlSafe(format!("ROLLBACK; {LEAVE}"))).execute(&mut *connection).await?;
        <Self as Database>::TransactionManager::start_rollback(connection);
        Ok(())
    }

    async fn leases(pool: &Pool<Self>) -> sqlx::Result<Vec<Lease>> {
        let rows = raw_sql(leases(NOW)).fetch_all(pool).await?;
        rows.into_iter()
            .map(|row| lease!(row, |text: Vec<u8>| String::from_utf8_lossy(&text).into_owned()))
            .collect()
    }

    fn is_conflict(error: &sqlx::Error) -> bool {
        matches!(number(error), Some(1020 | 1213))
    }

    fn is_missing(error: &sqlx::Error) -> bool {
        number(error) == Some(1146)
    }
}
