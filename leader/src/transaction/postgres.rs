//! Fences on PostgreSQL.

use sqlx::{AssertSqlSafe, Database, PgConnection, Pool, Postgres, Row, SqlSafeStr, raw_sql};
use sqlx_core::transaction::TransactionManager;

use super::Key;
use super::sealed::{Commit, Dialect, answers};
use crate::status::{Lease, lease, leases};
use crate::store::millis;
use crate::store::postgres::{NOW, code, text};

/// A text that is no number was cast to one.
const NO_NUMBER: &str = "22P02";

/// By this the commit knows the transaction again.
const MARK: &str = "set_config('leader.transaction', '1', true)";

impl Dialect for Postgres {
    async fn begin(connection: &mut PgConnection, key: &Key<'_>) -> sqlx::Result<bool> {
        // In one message with `BEGIN`, whose answer sqlx does not show: what it does show is an error. The transaction
        // that an error leaves behind, sqlx does not know of.
        let statement = AssertSqlSafe(format!("BEGIN; {}", fence(key, Absent::Fails))).into_sql_str();
        match <Self as Database>::TransactionManager::begin(connection, Some(statement)).await {
            Ok(()) => Ok(true),
            Err(error) if code(&error) == Some(NO_NUMBER) => {
                raw_sql("ROLLBACK").execute(connection).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn hold(connection: &mut PgConnection, key: &Key<'_>) -> sqlx::Result<bool> {
        let held: i64 =
            raw_sql(AssertSqlSafe(fence(key, Absent::Counts))).fetch_one(connection).await?.try_get(0)?;
        Ok(held > 0)
    }

    async fn commit(connection: &mut PgConnection) -> sqlx::Result<Commit> {
        // A transaction in which a statement has failed answers COMMIT with a rollback and no error; any other
        // statement is refused in it. The mark is gone with the transaction that was begun, and no number then, or not
        // known at all. The empty transaction is for sqlx, which believes in the old one, and for its ROLLBACK, which
        // goes out with the next message.
        let message = "SELECT current_setting('leader.transaction')::int; COMMIT; BEGIN";
        match answers(raw_sql(message).fetch_many(&mut *connection)).await {
            (_, None) => {
                <Self as Database>::TransactionManager::start_rollback(connection);
                Ok(Commit::Done)
            }
            (2.., Some(_)) => Ok(Commit::Unclean),
            // What refuses the mark is not what refuses the commit, a deferred trigger say.
            (0, Some(error)) if matches!(code(&error), Some("25P02" | NO_NUMBER | "42704")) => {
                Ok(Commit::Gone)
            }
            (_, Some(error)) => Err(error),
        }
    }

    async fn begin_bare(connection: &mut PgConnection, _key: &Key<'_>) -> sqlx::Result<()> {
        let statement = AssertSqlSafe(format!("BEGIN; SELECT {MARK}")).into_sql_str();
        <Self as Database>::TransactionManager::begin(connection, Some(statement)).await
    }

    async fn leases(pool: &Pool<Self>) -> sqlx::Result<Vec<Lease>> {
        let rows = raw_sql(leases(NOW)).fetch_all(pool).await?;
        rows.into_iter().map(|row| lease!(row)).collect()
    }

    fn is_conflict(error: &sqlx::Error) -> bool {
        code(error) == Some("40001")
    }

    fn is_missing(error: &sqlx::Error) -> bool {
        code(error) == Some("42P01")
    }
}

/// What a fence does without its row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// It answers 0.
    Counts,
    /// It fails, and the transaction with it.
    Fails,
}

/// One statement: the share lock, the bound on a frozen holder and the annotation. A holder that leaves results unread
/// is not idle; `tcp_user_timeout` is what ends it.
fn fence(key: &Key<'_>, absent: Absent) -> String {
    let idle = millis(key.idle);
    let answer = match absent {
        Absent::Counts => "count(*)",
        Absent::Fails => "(CASE count(*) WHEN 0 THEN 'refused by leader: this tenure is over' END)::int",
    };
    format!(
        "SELECT {answer}, set_config('idle_in_transaction_session_timeout', \
           CASE WHEN current_setting('idle_in_transaction_session_timeout')::interval BETWEEN '1ms' AND '{idle}ms' \
           THEN current_setting('idle_in_transaction_session_timeout') ELSE '{idle}ms' END, true), \
         set_config('tcp_user_timeout', '{idle}', true), set_config('application_name', '{tag}', true), {MARK} \
         FROM (SELECT 1 FROM leader_names n WHERE n.namespace = {namespace} AND n.name = {name} AND n.term = {term} \
           AND n.session_id = '{session}' FOR SHARE) AS held \
         /*trace_id='{trace_id}'*/",
        tag = tag(key),
        namespace = text(key.namespace),
        name = text(key.name),
        term = key.term,
        session = key.session,
        trace_id = key.trace_id,
    )
}

/// What `pg_stat_activity` shows: at most 63 bytes, ASCII. By it a standby finds what its predecessor left open.
fn tag(key: &Key<'_>) -> String {
    const LONGEST: usize = 63;

    let mut tag = format!("leader:{}:{}", key.term, label(key.name));
    tag.truncate(LONGEST);
    tag
}

/// The part of the tag that the name makes: its ASCII, and nothing that SQL would read in another way.
pub(crate) fn label(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "_-.:/".contains(c) { c } else { '?' }
    };
    name.chars().map(plain).collect()
}
