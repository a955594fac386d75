//! Fences on MySQL and MariaDB.

use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Pool, Row, SqlSafeStr, SqlStr, raw_sql};

use super::Key;
use super::sealed::Dialect;
use crate::status::{Lease, lease};
use crate::store::mysql::{NOW, bytes};

/// Which of the two servers this is decides what bounds a frozen holder, and only the server knows: each reads its
/// own half of the statement. MariaDB has a limit for idle transactions; on MySQL the one for idle connections must
/// do. Neither has a form that lasts for one transaction, so the old values are kept and put back.
fn bound(key: &Key<'_>) -> String {
    let idle = key.idle.as_secs();
    format!(
        "SET @leader_fence = {term} \
         /*M!100600 , @leader_idle = @@SESSION.idle_transaction_timeout, @leader_write = @@SESSION.net_write_timeout, \
         SESSION idle_transaction_timeout = IF(@@SESSION.idle_transaction_timeout BETWEEN 1 AND {idle}, @@SESSION.idle_transaction_timeout, {idle}), \
         SESSION net_write_timeout = LEAST(@@SESSION.net_write_timeout, {idle}) */ \
         /*!80000 , @leader_idle = @@SESSION.wait_timeout, @leader_write = @@SESSION.net_write_timeout, \
         SESSION wait_timeout = LEAST(@@SESSION.wait_timeout, {idle}), \
         SESSION net_write_timeout = LEAST(@@SESSION.net_write_timeout, {idle}) */",
        term = key.term,
    )
}

impl Dialect for MySql {
    fn statement(key: &Key<'_>) -> Option<SqlStr> {
        Some(AssertSqlSafe(format!("{}; START TRANSACTION", bound(key))).into_sql_str())
    }

    async fn prepare_fence(connection: &mut MySqlConnection, key: &Key<'_>) -> sqlx::Result<()> {
        // It stays on this connection: there is no end of the transaction to hook on.
        raw_sql(AssertSqlSafe(bound(key))).execute(connection).await.map(drop)
    }

    async fn hold(connection: &mut MySqlConnection, key: &Key<'_>) -> sqlx::Result<bool> {
        let statement = format!(
            "SELECT 1 FROM leader_names WHERE namespace = {} AND name = {} AND session_id = '{}' AND term = {} \
             LOCK IN SHARE MODE /*trace_id='{}'*/",
            bytes(key.namespace),
            bytes(key.name),
            key.session,
            key.term,
            key.trace_id,
        );
        let row = raw_sql(AssertSqlSafe(statement)).fetch_optional(connection).await?;
        Ok(row.is_some())
    }

    async fn leave(connection: &mut MySqlConnection) -> sqlx::Result<()> {
        const LEAVE: &str = "SET @leader_fence = NULL \
             /*M!100600 , SESSION idle_transaction_timeout = @leader_idle, SESSION net_write_timeout = @leader_write */ \
             /*!80000 , SESSION wait_timeout = @leader_idle, SESSION net_write_timeout = @leader_write */";
        raw_sql(LEAVE).execute(connection).await.map(drop)
    }

    async fn leases(pool: &Pool<Self>) -> sqlx::Result<Vec<Lease>> {
        let rows = raw_sql(AssertSqlSafe(format!(
            "SELECT n.namespace, n.name, n.term, n.elected_at_ms, s.id, s.instance, s.expires_at_ms - {NOW} \
             FROM leader_names n LEFT JOIN leader_sessions s ON s.id = n.session_id ORDER BY n.namespace, n.name"
        )))
        .fetch_all(pool)
        .await?;
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

fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}
