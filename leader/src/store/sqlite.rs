//! The protocol on a SQLite file, shared by processes of one machine.
//!
//! SQLite has one writer at a time. Its own busy handler starves a renewal beside anybody who writes back to back, so
//! the keeper tries again every millisecond, and a [`Turnstile`] lets it in between two fenced transactions.

mod beside;
mod held_up;
mod mark;
mod turnstile;

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};

use super::{
    Cause, ScanRow, Scope, Store, StoreError, json_holds, json_ids, json_names, missing, session_id,
};
use crate::name::WorkName;
use crate::protocol::{Digest, Hint, Hold, Scan, SessionId};
use crate::tables::SQLITE as TABLES;
use beside::Beside;
use held_up::HeldUp;
use mark::Mark;

pub(crate) use turnstile::Turnstile;

/// Taken after the write lock was obtained: a renewal that waited out its own lease finds it expired.
macro_rules! now {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

/// The same as a constant.
pub(crate) const NOW: &str = now!();

const OPEN: &str = concat!(
    "INSERT INTO leader_sessions (id, namespace, instance, started_at_ms, expires_at_ms) VALUES (?1, ?2, ?3, ",
    now!(),
    ", ",
    now!(),
    " + ?4)"
);
const RENEW: &str = concat!(
    "UPDATE leader_sessions SET expires_at_ms = ",
    now!(),
    " + ?1 WHERE id = ?2 AND expires_at_ms > ",
    now!(),
    " RETURNING ",
    "(SELECT count(*) FROM leader_names n WHERE n.namespace = leader_sessions.namespace AND n.session_id = leader_sessions.id), ",
    "(SELECT coalesce(sum(n.term), 0) FROM leader_names n WHERE n.namespace = leader_sessions.namespace AND n.session_id = leader_sessions.id)"
);
const HELD: &str = "SELECT name, term FROM leader_names WHERE namespace = ?1 AND session_id = ?2";
const SCAN: &str = concat!(
    "WITH t AS MATERIALIZED (SELECT ",
    now!(),
    " AS now) ",
    "SELECT n.name, n.session_id, s.id IS NOT NULL, NULL, NULL FROM leader_names n CROSS JOIN t LEFT JOIN leader_sessions s ON s.id = n.session_id ",
    "WHERE n.namespace = ?1 AND (s.id IS NULL OR s.expires_at_ms <= t.now) ",
    "UNION ALL SELECT NULL, s.id, 1, NULL, s.instance FROM leader_sessions s, t WHERE s.namespace = ?1 AND s.expires_at_ms <= t.now ",
    "UNION ALL SELECT NULL, NULL, NULL, min(s.expires_at_ms - t.now), NULL FROM leader_sessions s, t WHERE s.namespace = ?1 AND s.expires_at_ms > t.now AND s.id <> ?2 ",
    "UNION ALL SELECT NULL, NULL, 0, count(*), NULL FROM leader_names WHERE namespace = ?1"
);
const REAP: &str = concat!(
    "DELETE FROM leader_sessions WHERE id IN (SELECT value FROM json_each(?1)) AND expires_at_ms <= ",
    now!(),
    " RETURNING id"
);
const CLAIM: &str = concat!(
    "UPDATE leader_names SET session_id = ?4, term = max(term + 1, ",
    now!(),
    "), elected_at_ms = ",
    now!(),
    " WHERE namespace = ?1 AND name IN (SELECT value FROM json_each(?2)) ",
    "AND (session_id IS NULL OR session_id IN (SELECT value FROM json_each(?3))) ",
    "AND EXISTS (SELECT 1 FROM leader_sessions m WHERE m.id = ?4 AND m.expires_at_ms > ",
    now!(),
    ") RETURNING name, term"
);
const RELEASE: &str = "UPDATE leader_names SET session_id = NULL WHERE namespace = ?1 AND session_id = ?3 \
     AND (name, term) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?2))";
const ENSURE: &str = "INSERT INTO leader_names (namespace, name) SELECT ?1, value FROM json_each(?2) WHERE true ON CONFLICT DO NOTHING";
const CLOSE: &str = "DELETE FROM leader_sessions WHERE id = ?1";

/// How soon a busy file is tried again.
const AGAIN: Duration = Duration::from_millis(1);

pub(crate) struct Sqlite {
    options: SqliteConnectOptions,
    scope: Scope,
    connection: Option<SqliteConnection>,
    turnstile: Turnstile,
    held_up: HeldUp,
    mark: Mark,
}

impl Sqlite {
    pub(crate) fn new(options: &SqliteConnectOptions, scope: Scope) -> Self {
        let turnstile = Turnstile::beside(options.get_filename());
        let mark = Mark::in_file(turnstile.file());
        let held_up = HeldUp::new(options.get_filename(), scope.attempt / 2);
        Self {
            options: options
                .clone()
                .disable_statement_logging()
                .busy_timeout(Duration::ZERO)
                // Without a sync per commit a power cut can hand a term out twice.
                .synchronous(SqliteSynchronous::Full)
                .journal_mode(SqliteJournalMode::Wal)
                .thread_name(|id| format!("leader-sqlite-{id}")),
            scope,
            connection: None,
            turnstile,
            held_up,
            mark,
        }
    }

    async fn connection(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => loop {
                match SqliteConnection::connect_with(&self.options).await.map_err(failed) {
                    Ok(connection) => break connection,
                    Err(error) if error.cause == Cause::Transient => tokio::time::sleep(AGAIN).await,
                    Err(error) => return Err(error),
                }
            },
        };
        Ok(self.connection.insert(connection))
    }

    /// Runs one statement that writes, as soon as the file lets it. It ends at the latest when the attempt is given up.
    async fn write(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<SqliteRow>, StoreError> {
        let mut held = None;
        loop {
            let connection = self.connection().await?;
            match fetch(connection, sql, values).await {
                Err(error) if error.cause == Cause::Transient => {
                    // The file is busy: others wait at the turnstile from here on.
                    if held.is_none() {
                        held = self.turnstile.close();
                    }
                    self.held_up.goes_on();
                    tokio::time::sleep(AGAIN).await;
                }
                done => {
                    self.held_up.ends();
                    return done;
                }
            }
        }
    }

    async fn read(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<SqliteRow>, StoreError> {
        loop {
            let connection = self.connection().await?;
            match fetch(connection, sql, values).await {
                Err(error) if error.cause == Cause::Transient => tokio::time::sleep(AGAIN).await,
                done => return done,
            }
        }
    }

    fn namespace(&self) -> String {
        self.scope.namespace.as_str().to_owned()
    }
}

#[derive(Clone, Copy)]
enum Value<'v> {
    Text(&'v str),
    Number(i64),
}

async fn fetch(
    connection: &mut SqliteConnection,
    sql: &'static str,
    values: &[Value<'_>],
) -> Result<Vec<SqliteRow>, StoreError> {
    let mut query = sqlx::query(sql);
    for value in values {
        query = match *value {
            Value::Text(text) => query.bind(text.to_owned()),
            Value::Number(number) => query.bind(number),
        };
    }
    query.fetch_all(connection).await.map_err(failed)
}

impl Store for Sqlite {
    async fn prepare(&mut self, create: bool) -> Result<(), StoreError> {
        // Not by its name: what is in memory may have any. SQLite says of which file the database is, and that of none it is.
        let file = self.read("SELECT file FROM pragma_database_list WHERE name = 'main'", &[]).await?;
        if get::<Option<String>>(one(&file)?, 0)?.is_none_or(|file| file.is_empty()) {
            return Err(StoreError::unfit(
                "a SQLite database in memory belongs to one process; give the elector a file",
            ));
        }
        let clock = self.read("SELECT unixepoch('subsec'), sqlite_version()", &[]).await?;
        let row = one(&clock)?;
        if get::<Option<f64>>(row, 0)?.is_none() {
            return Err(StoreError::unfit(format!(
                "this is SQLite {}, whose clock has no milliseconds; leases need 3.42 or later",
                get::<String>(row, 1)?
            )));
        }
        let there = self
            .read(
                "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('leader_sessions', 'leader_names')",
                &[],
            )
            .await?;
        if get::<i64>(one(&there)?, 0)? < 2 {
            if !create {
                return Err(missing(TABLES));
            }
            for table in TABLES.split_inclusive(';').filter(|table| !table.trim().is_empty()) {
                self.write(table, &[]).await?;
            }
        }
        Ok(())
    }

    async fn ensure(&mut self, names: &[WorkName]) -> Result<(), StoreError> {
        let (namespace, names) = (self.namespace(), json_names(names));
        self.write(ENSURE, &[Value::Text(&namespace), Value::Text(&names)]).await.map(drop)
    }

    async fn open(&mut self, id: SessionId) -> Result<(), StoreError> {
        let (id, namespace, instance) = (id.to_string(), self.namespace(), self.scope.instance.clone());
        let lease = self.scope.lease_ms();
        self.write(
            OPEN,
            &[Value::Text(&id), Value::Text(&namespace), Value::Text(&instance), Value::Number(lease)],
        )
        .await
        .map(drop)
    }

    async fn renew(&mut self, id: SessionId) -> Result<Option<Digest>, StoreError> {
        let (id, lease) = (id.to_string(), self.scope.lease_ms());
        let rows = self.write(RENEW, &[Value::Number(lease), Value::Text(&id)]).await?;
        rows.first()
            .map(|row| Ok(Digest { count: get::<i64>(row, 0)?.unsigned_abs(), terms: get(row, 1)? }))
            .transpose()
    }

    async fn held(&mut self, id: SessionId) -> Result<Vec<Hold>, StoreError> {
        let (namespace, id) = (self.namespace(), id.to_string());
        holds(&self.read(HELD, &[Value::Text(&namespace), Value::Text(&id)]).await?)
    }

    async fn scan(&mut self, id: SessionId) -> Result<Scan, StoreError> {
        let (namespace, id) = (self.namespace(), id.to_string());
        let rows = &self.read(SCAN, &[Value::Text(&namespace), Value::Text(&id)]).await?;
        super::scan(rows.iter().map(|row| {
            Ok(ScanRow {
                name: get(row, 0)?,
                session: get(row, 1)?,
                expired: get::<Option<i64>>(row, 2)?.map(|expired| expired != 0),
                number: get(row, 3)?,
                instance: get(row, 4)?,
            })
        }))
    }

    async fn reap(&mut self, ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError> {
        let ids = json_ids(ids);
        let rows = self.write(REAP, &[Value::Text(&ids)]).await?;
        rows.iter().map(|row| session_id(&get::<String>(row, 0)?)).collect()
    }

    async fn claim(
        &mut self,
        id: SessionId,
        names: &[WorkName],
        gone: &[SessionId],
    ) -> Result<Vec<Hold>, StoreError> {
        let (namespace, names, gone, id) =
            (self.namespace(), json_names(names), json_ids(gone), id.to_string());
        let values = [Value::Text(&namespace), Value::Text(&names), Value::Text(&gone), Value::Text(&id)];
        holds(&self.write(CLAIM, &values).await?)
    }

    async fn release(&mut self, id: SessionId, held: &[Hold]) -> Result<Vec<Hold>, StoreError> {
        let (namespace, held, id) = (self.namespace(), json_holds(held), id.to_string());
        // Who writes has the whole file: no row can be locked by somebody else.
        self.write(RELEASE, &[Value::Text(&namespace), Value::Text(&held), Value::Text(&id)]).await?;
        self.mark.change();
        Ok(Vec::new())
    }

    async fn close(&mut self, id: SessionId) -> Result<(), StoreError> {
        let id = id.to_string();
        self.write(CLOSE, &[Value::Text(&id)]).await?;
        self.mark.change();
        Ok(())
    }

    fn hang_up(&mut self) {
        self.connection = None;
    }

    async fn changed(&mut self) -> Hint {
        self.mark.changed().await;
        Hint::Look
    }
}

/// Whether a path is no file that other processes could open.
pub(crate) fn in_memory(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.is_empty() || path.contains(":memory:") || path.starts_with("file:sqlx-in-memory")
}

fn holds(rows: &[SqliteRow]) -> Result<Vec<Hold>, StoreError> {
    super::holds(rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))))
}

fn one(rows: &[SqliteRow]) -> Result<&SqliteRow, StoreError> {
    rows.first().ok_or_else(|| failed(sqlx::Error::RowNotFound))
}

fn get<'r, T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>>(
    row: &'r SqliteRow,
    column: usize,
) -> Result<T, StoreError> {
    row.try_get(column).map_err(failed)
}

/// SQLite has no code of its own for this.
pub(crate) fn is_table_missing(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.message().starts_with("no such table: leader_"))
}

/// Judges an error by its code.
pub(crate) fn failed(error: sqlx::Error) -> StoreError {
    const BUSY: u32 = 5;
    const LOCKED: u32 = 6;
    const READONLY: u32 = 8;
    const CANTOPEN: u32 = 14;

    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    // Extended codes carry the primary one in their lowest byte.
    let cause = match code.map(|code| code & 0xff) {
        Some(BUSY | LOCKED) => Cause::Transient,
        Some(READONLY) => Cause::Refused(
            "the SQLite file is read-only; give the process the right to write the file and its folder"
                .to_owned(),
        ),
        Some(CANTOPEN) => Cause::Refused(
            "a file that is missing is made with `?mode=rwc` at the end of the URL, or `create_if_missing(true)`; else look at the rights on the file and its folder"
                .to_owned(),
        ),
        Some(1) if is_table_missing(&error) => Cause::NoTables,
        _ => Cause::Broken,
    };
    StoreError::new(cause, error)
}
