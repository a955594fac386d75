//! The protocol on MySQL 8 and MariaDB 10.6 and later.
//!
//! Names are bytes (`varbinary`): no collation, no padding, no client charset comes between two replicas.

use futures::TryStreamExt;
use sqlx::mysql::{MySqlDatabaseError, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, MySqlConnection, Row, raw_sql};
use tokio::time::Instant;

use super::{Cause, RIGHTS, ScanRow, Scope, Store, StoreError, hex, missing, session_id};
use crate::database::Address;
use crate::name::WorkName;
use crate::protocol::{Digest, Hint, Hold, Scan, SessionId};
use crate::tables::MYSQL as TABLES;

/// UTC, whatever the session's zone and whatever daylight saving does to it. It stands still from the start of the
/// statement, which errs to the safe side: a renewal that waited for a lock pushes the expiry less far.
pub(crate) const NOW: &str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000)";

pub(crate) struct MySql {
    address: Address<sqlx::MySql>,
    scope: Scope,
    connection: Option<MySqlConnection>,
    /// When a standby looks again, whatever its keeper does in between.
    next_look: Option<Instant>,
}

/// One message's answer: the rows it changed by its statements, and every row it selected.
struct Answer {
    affected: u64,
    rows: Vec<MySqlRow>,
}

impl MySql {
    pub(crate) fn new(address: Address<sqlx::MySql>, scope: Scope) -> Self {
        Self { address, scope, connection: None, next_look: None }
    }

    fn namespace(&self) -> String {
        bytes(self.scope.namespace.as_str())
    }

    async fn run(&mut self, message: &str) -> Result<Answer, StoreError> {
        let connection = if let Some(connection) = &mut self.connection {
            connection
        } else {
            let options = self.address.options().disable_statement_logging();
            let mut connection = MySqlConnection::connect_with(&options).await.map_err(failed)?;
            // The server's defaults are not ours: REPEATABLE READ, maybe READ ONLY, lock waits of 50 s and of a day, and an
            // `autocommit=0` under which no renewal would ever be committed. A statement that is given up ends at the
            // server too, where the server can do that: MariaDB for all of them, MySQL for reads.
            let settings = format!(
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; \
                 SET SESSION autocommit = 1, innodb_lock_wait_timeout = 2, lock_wait_timeout = 2 \
                 /*M!100600 , max_statement_time = {}, idle_transaction_timeout = 10 */ \
                 /*!80000 , max_execution_time = {} */",
                self.scope.attempt.as_secs_f64(),
                self.scope.attempt.as_millis(),
            );
            send(&mut connection, &settings).await?;
            self.connection.insert(connection)
        };
        send(connection, message).await
    }
}

async fn send(connection: &mut MySqlConnection, message: &str) -> Result<Answer, StoreError> {
    let mut answer = Answer { affected: 0, rows: Vec::new() };
    let mut results = raw_sql(AssertSqlSafe(message)).fetch_many(connection);
    while let Some(result) = results.try_next().await.map_err(failed)? {
        match result {
            Either::Left(done) => answer.affected += done.rows_affected(),
            Either::Right(row) => answer.rows.push(row),
        }
    }
    Ok(answer)
}

impl Store for MySql {
    async fn prepare(&mut self, create: bool) -> Result<(), StoreError> {
        let answer = self.run("SELECT VERSION(), DATABASE()").await?;
        let row = one(&answer.rows)?;
        let version: String = get(row, 0)?;
        if get::<Option<String>>(row, 1)?.is_none() {
            return Err(StoreError::unfit("the URL names no database; append `/name` to it"));
        }
        fit(&version).map_err(StoreError::unfit)?;
        let there = self
            .run(
                "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() \
                 AND table_name IN ('leader_sessions', 'leader_names')",
            )
            .await?;
        if get::<i64>(one(&there.rows)?, 0)? < 2 {
            if !create {
                return Err(missing(TABLES));
            }
            self.run(TABLES).await?;
        }
        self.run(RIGHTS).await?;
        // Only Galera has this variable, and no other way of asking is without an error elsewhere.
        let galera = self.run("SHOW SESSION VARIABLES LIKE 'wsrep_on'").await?;
        if let Some(row) = galera.rows.first()
            && get::<String>(row, 1)?.eq_ignore_ascii_case("on")
        {
            tracing::warn!(
                "this server is a Galera node: share locks are not replicated, so fenced transactions hold only while every replica writes to the same node"
            );
        }
        Ok(())
    }

    async fn ensure(&mut self, names: &[WorkName]) -> Result<(), StoreError> {
        if names.is_empty() {
            return Ok(());
        }
        let namespace = self.namespace();
        let rows: Vec<String> =
            names.iter().map(|name| format!("({namespace},{})", bytes(name.as_str()))).collect();
        // IGNORE takes no lock that another ensure could deadlock with, as names come sorted. It would truncate what is
        // too long without a word; a `WorkName` never is.
        self.run(&format!("INSERT IGNORE INTO leader_names (namespace, name) VALUES {}", rows.join(",")))
            .await
            .map(drop)
    }

    async fn open(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.run(&format!(
            "INSERT INTO leader_sessions (id, namespace, instance, started_at_ms, expires_at_ms) \
             VALUES ('{id}', {}, CONVERT({} USING utf8mb4), {NOW}, {NOW} + {})",
            self.namespace(),
            bytes(&self.scope.instance),
            self.scope.lease_ms(),
        ))
        .await
        .map(drop)
    }

    async fn renew(&mut self, id: SessionId) -> Result<Option<Digest>, StoreError> {
        let answer = self
            .run(&format!(
                "UPDATE leader_sessions SET expires_at_ms = {NOW} + {} WHERE id = '{id}' AND expires_at_ms > {NOW}; \
                 SELECT count(*), CAST(coalesce(sum(term), 0) AS SIGNED) FROM leader_names WHERE namespace = {} AND session_id = '{id}'",
                self.scope.lease_ms(),
                self.namespace(),
            ))
            .await?;
        // sqlx asks for matched rows, not changed ones: a second renewal in one millisecond counts too.
        if answer.affected == 0 {
            return Ok(None);
        }
        let row = one(&answer.rows)?;
        Ok(Some(Digest { count: get::<i64>(row, 0)?.unsigned_abs(), terms: get(row, 1)? }))
    }

    async fn held(&mut self, id: SessionId) -> Result<Vec<Hold>, StoreError> {
        let answer = self
            .run(&format!(
                "SELECT name, term FROM leader_names WHERE namespace = {} AND session_id = '{id}'",
                self.namespace()
            ))
            .await?;
        holds(&answer.rows)
    }

    async fn scan(&mut self, id: SessionId) -> Result<Scan, StoreError> {
        let answer = self
            .run(&format!(
                "SELECT n.name, n.session_id, s.id IS NOT NULL, NULL, NULL FROM leader_names n LEFT JOIN leader_sessions s ON s.id = n.session_id \
                 WHERE n.namespace = {namespace} AND (s.id IS NULL OR s.expires_at_ms <= {NOW}) \
                 UNION ALL SELECT NULL, s.id, 1, NULL, s.instance FROM leader_sessions s WHERE s.namespace = {namespace} AND s.expires_at_ms <= {NOW} \
                 UNION ALL SELECT NULL, NULL, NULL, min(s.expires_at_ms) - {NOW}, NULL FROM leader_sessions s \
                 WHERE s.namespace = {namespace} AND s.expires_at_ms > {NOW} AND s.id <> '{id}' \
                 UNION ALL SELECT NULL, NULL, 0, count(*), NULL FROM leader_names n WHERE n.namespace = {namespace}",
                namespace = self.namespace(),
            ))
            .await?;
        super::scan(answer.rows.iter().map(|row| {
            Ok(ScanRow {
                name: get::<Option<Vec<u8>>>(row, 0)?.map(text),
                session: get(row, 1)?,
                expired: get::<Option<i64>>(row, 2)?.map(|expired| expired != 0),
                number: get(row, 3)?,
                instance: get(row, 4)?,
            })
        }))
    }

    async fn reap(&mut self, ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError> {
        let mut reaped = Vec::new();
        if ids.is_empty() {
            return Ok(reaped);
        }
        // Somebody may hold a row: a renewal in flight, which wins, or an operator. The others can go.
        let ids: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
        let free = self
            .run(&format!(
                "SELECT id FROM leader_sessions WHERE id IN ({}) AND expires_at_ms <= {NOW} FOR UPDATE SKIP LOCKED",
                ids.join(",")
            ))
            .await?;
        // One by one, as MySQL has no RETURNING.
        for row in &free.rows {
            let id = session_id(&get::<String>(row, 0)?)?;
            let delete = format!("DELETE FROM leader_sessions WHERE id = '{id}' AND expires_at_ms <= {NOW}");
            match self.run(&delete).await {
                Ok(answer) if answer.affected > 0 => reaped.push(id),
                Ok(_) => {}
                // Locked since.
                Err(error) if is_lock_wait(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(reaped)
    }

    async fn claim(
        &mut self,
        id: SessionId,
        names: &[WorkName],
        gone: &[SessionId],
    ) -> Result<Vec<Hold>, StoreError> {
        let gone: Vec<String> = gone.iter().map(|id| format!("'{id}'")).collect();
        let names = list(names.iter().map(WorkName::as_str));
        let namespace = self.namespace();
        let free = if gone.is_empty() {
            "q.session_id IS NULL".to_owned()
        } else {
            format!("(q.session_id IS NULL OR q.session_id IN ({}))", gone.join(","))
        };
        // An UPDATE that skips locked rows depends on the plan, and waits with some. This form reads by the primary key,
        // skips, and as one autocommit statement cannot be frozen half-way (I1, I3). What an older claim won, whose answer
        // was lost, is told apart by the moment (I7).
        let answer = self
            .run(&format!(
                "SET @leader_now = {NOW}; \
                 INSERT INTO leader_names (namespace, name, term) \
                 SELECT q.namespace, q.name, q.term FROM leader_names q FORCE INDEX (PRIMARY) \
                 WHERE q.namespace = {namespace} AND q.name IN ({names}) AND {free} \
                 AND EXISTS (SELECT 1 FROM leader_sessions m WHERE m.id = '{id}' AND m.expires_at_ms > @leader_now) FOR UPDATE SKIP LOCKED \
                 ON DUPLICATE KEY UPDATE session_id = '{id}', term = GREATEST(leader_names.term + 1, @leader_now), elected_at_ms = @leader_now; \
                 SELECT name, term FROM leader_names \
                 WHERE namespace = {namespace} AND session_id = '{id}' AND name IN ({names}) AND elected_at_ms = @leader_now"
            ))
            .await?;
        holds(&answer.rows)
    }

    async fn release(&mut self, id: SessionId, held: &[Hold]) -> Result<Vec<Hold>, StoreError> {
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let names = list(held.iter().map(|(name, _)| name.as_str()));
        let pairs: Vec<String> =
            held.iter().map(|(name, term)| format!("({},{term})", bytes(name.as_str()))).collect();
        let namespace = self.namespace();
        let answer = self
            .run(&format!(
                "INSERT INTO leader_names (namespace, name, term) \
                 SELECT q.namespace, q.name, q.term FROM leader_names q FORCE INDEX (PRIMARY) \
                 WHERE q.namespace = {namespace} AND q.name IN ({names}) AND q.session_id = '{id}' AND (q.name, q.term) IN ({}) \
                 FOR UPDATE SKIP LOCKED ON DUPLICATE KEY UPDATE session_id = NULL; \
                 SELECT name, term FROM leader_names WHERE namespace = {namespace} AND session_id = '{id}' AND name IN ({names})",
                pairs.join(",")
            ))
            .await?;
        holds(&answer.rows).map(|kept| super::asked(kept, held))
    }

    async fn close(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.run(&format!("DELETE FROM leader_sessions WHERE id = '{id}'")).await.map(drop)
    }

    fn hang_up(&mut self) {
        self.connection = None;
    }

    async fn changed(&mut self) -> Hint {
        let due = *self.next_look.get_or_insert_with(|| Instant::now() + self.scope.look);
        tokio::time::sleep_until(due).await;
        self.next_look = None;
        Hint::Look
    }
}

/// Whether a server of this version has `SKIP LOCKED`.
fn fit(version: &str) -> Result<(), String> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (server, oldest) =
        if version.contains("MariaDB") { ("MariaDB", (10, 6, 0)) } else { ("MySQL", (8, 0, 1)) };
    if found < oldest {
        return Err(format!(
            "this {server} server has version {version}; leases need {}.{}.{} or later",
            oldest.0, oldest.1, oldest.2
        ));
    }
    Ok(())
}

/// A text as a literal of its bytes.
pub(crate) fn bytes(text: &str) -> String {
    format!("X'{}'", hex(text))
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(bytes).collect::<Vec<_>>().join(",")
}

/// A name as it was written; one that is no text was not written by this library, and is nobody's.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

fn holds(rows: &[MySqlRow]) -> Result<Vec<Hold>, StoreError> {
    super::holds(rows.iter().map(|row| Ok((text(get(row, 0)?), get(row, 1)?))))
}

fn one(rows: &[MySqlRow]) -> Result<&MySqlRow, StoreError> {
    rows.first().ok_or_else(|| failed(sqlx::Error::RowNotFound))
}

fn get<'r, T: sqlx::Decode<'r, sqlx::MySql> + sqlx::Type<sqlx::MySql>>(
    row: &'r MySqlRow,
    column: usize,
) -> Result<T, StoreError> {
    row.try_get(column).map_err(failed)
}

/// The number of a database's error.
pub(crate) fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

const LOCK_WAIT: u16 = 1205;

fn is_lock_wait(error: &StoreError) -> bool {
    error.source.downcast_ref().and_then(number) == Some(LOCK_WAIT)
}

/// Judges an error by its number.
pub(crate) fn failed(error: sqlx::Error) -> StoreError {
    let cause = match number(&error) {
        Some(LOCK_WAIT | 1213 | 1020) => Cause::Transient,
        Some(1146) => Cause::NoTables,
        Some(1142 | 1044 | 1227) => Cause::Refused(format!(
            "grant the user SELECT, INSERT and UPDATE on both tables, and DELETE on `leader_sessions`; if they are missing, let it create them or run this SQL:\n{TABLES}"
        )),
        Some(1290 | 1792 | 1836) => {
            Cause::Refused("the server is read-only; give the address of the primary".to_owned())
        }
        _ => Cause::Broken,
    };
    StoreError::new(cause, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_that_skip_locked_rows_are_fit() {
        for fit_version in
            ["10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.4.2-MariaDB", "8.0.36", "9.1.0"]
        {
            assert_eq!(fit(fit_version), Ok(()), "{fit_version}");
        }
        for old in ["10.5.99-MariaDB", "5.7.44-log", "8.0.0", "5.5.5-10.3.1-MariaDB"] {
            assert!(fit(old).is_err(), "{old}");
        }
    }
}
