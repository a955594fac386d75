//! The protocol on PostgreSQL 12 and later.
//!
//! Everything goes through the simple protocol, so that it works behind PgBouncer in transaction mode, and everything
//! that a statement needs set comes with it in one message: an implicit transaction, one round trip, nothing left
//! behind on a connection that may serve somebody else next.

mod listener;

use std::sync::Arc;

use sqlx::postgres::{PgDatabaseError, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row, raw_sql};

use listener::Mailbox;

use super::{
    Cause, Companion, RIGHTS, ScanRow, Scope, Store, StoreError, hex, json_holds, json_ids, json_names,
    millis, missing, session_id,
};
use crate::database::Address;
use crate::name::WorkName;
use crate::protocol::{Digest, Hint, Hold, Scan, SessionId};
use crate::tables::POSTGRES as TABLES;

/// The present, which `now()` is not: it stands still inside a transaction.
pub(crate) const NOW: &str = "(extract(epoch FROM clock_timestamp())*1000)::bigint";

/// `CREATE TABLE IF NOT EXISTS` from 20 clients at once fails for most of them; one at a time, it does not.
const CREATE_LOCK: i64 = 0x6c65_6164_6572; // "leader"

const READ_ONLY: &str = "it is read-only; give the address of the primary";

/// Oldest version with `AS MATERIALIZED`.
const OLDEST: i64 = 120_000;

pub(crate) struct Postgres {
    address: Address<sqlx::Postgres>,
    scope: Scope,
    dialled: Option<Dialled>,
    heard: Arc<Mailbox>,
    /// It was said that releases cannot be announced.
    told: bool,
    /// The last release left names behind: whether the next frees any is not known beforehand.
    left_behind: bool,
}

/// A connection, and what makes a commit on it durable: `SET LOCAL synchronous_commit` where a role or database default is
/// `off`. A renewal that a crash forgets is a lease that two replicas believe in.
struct Dialled {
    connection: PgConnection,
    durable: &'static str,
}

impl Postgres {
    pub(crate) fn new(address: Address<sqlx::Postgres>, scope: Scope) -> Self {
        Self { address, scope, dialled: None, heard: Arc::default(), told: false, left_behind: false }
    }

    /// The channel that releases of this namespace are announced on. Identifiers hold 63 bytes, so a digest of it.
    fn channel(&self) -> String {
        channel(self.scope.namespace.as_str())
    }

    fn namespace(&self) -> String {
        text(self.scope.namespace.as_str())
    }

    async fn run(&mut self, statement: &str) -> Result<Vec<PgRow>, StoreError> {
        let attempt = millis(self.scope.attempt);
        let Dialled { connection, durable } = self.dialled().await?;
        let message = format!(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL lock_timeout = '2s'; \
             SET LOCAL statement_timeout = '{attempt}ms'; {durable}{statement}",
        );
        raw_sql(AssertSqlSafe(message)).fetch_all(connection).await.map_err(failed)
    }

    async fn dialled(&mut self) -> Result<&mut Dialled, StoreError> {
        let dialled = if let Some(dialled) = self.dialled.take() {
            dialled
        } else {
            let options = self.address.options().disable_statement_logging();
            let mut connection = PgConnection::connect_with(&options).await.map_err(failed)?;
            let look = "SELECT current_setting('synchronous_commit')";
            let row = raw_sql(look).fetch_one(&mut connection).await.map_err(failed)?;
            let durable = match get::<String>(&row, 0)?.as_str() {
                "off" => "SET LOCAL synchronous_commit = on; ",
                _ => "",
            };
            Dialled { connection, durable }
        };
        Ok(self.dialled.insert(dialled))
    }

    /// Frees names, says so, and returns them.
    async fn free(&mut self, freed: &str) -> Result<Vec<String>, StoreError> {
        // One a line, or nothing where that is too long for a notification.
        let announced = format!(
            "WITH freed (name) AS ({freed}) SELECT names, pg_notify('{}', CASE WHEN octet_length(names) < 8000 THEN names ELSE '' END) \
             FROM (SELECT string_agg(name, chr(10)) AS names FROM freed) AS f WHERE names IS NOT NULL",
            self.channel()
        );
        let names = self.announce(&announced, freed).await?;
        Ok(names.iter().flat_map(|names| names.split('\n')).map(ToOwned::to_owned).collect())
    }

    /// Frees one name and says so, in two statements that are planned in less time than one that does both. A name that is
    /// locked is announced as well, and claimed in vain.
    async fn free_one(&mut self, freed: &str, name: &str) -> Result<Vec<String>, StoreError> {
        let announced = format!("{freed}; NOTIFY {}, {name}", self.channel());
        self.announce(&announced, freed).await
    }

    /// Frees names by a statement that announces them, and returns its first column. Where the server takes no such
    /// notification, the names are freed all the same, and standbys find them by looking.
    async fn announce(&mut self, announced: &str, freed: &str) -> Result<Vec<String>, StoreError> {
        let rows = match self.run(announced).await {
            Err(error) if error.source.downcast_ref().is_some_and(takes_no_notification) => {
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(%error, "a release cannot be announced; standbys notice it by looking");
                }
                self.run(freed).await?
            }
            rows => rows?,
        };
        rows.iter().map(|row| get(row, 0)).collect()
    }
}

impl Store for Postgres {
    async fn prepare(&mut self, create: bool) -> Result<(), StoreError> {
        const LOOK: &str = "SELECT current_setting('server_version_num')::bigint, pg_is_in_recovery(), \
             to_regclass('leader_sessions') IS NOT NULL AND to_regclass('leader_names') IS NOT NULL";
        let dialled = self.dialled().await?;
        let row = raw_sql(LOOK).fetch_one(&mut dialled.connection).await.map_err(failed)?;
        let version: i64 = get(&row, 0)?;
        let standby: bool = get(&row, 1)?;
        let there: bool = get(&row, 2)?;
        if version < OLDEST {
            return Err(StoreError::unfit(format!(
                "this PostgreSQL server has version {}; leases need 12 or later",
                version / 10_000
            )));
        }
        if standby {
            let why = "the server is a standby";
            return Err(StoreError::new(Cause::Refused(READ_ONLY.to_owned()), why));
        }
        if !there {
            if !create {
                return Err(missing(TABLES));
            }
            self.run(&format!("SET LOCAL client_min_messages = warning; SELECT pg_advisory_xact_lock({CREATE_LOCK}); {TABLES}")).await?;
        }
        self.run(RIGHTS).await.map(drop)
    }

    async fn ensure(&mut self, names: &[WorkName]) -> Result<(), StoreError> {
        let statement = format!(
            "INSERT INTO leader_names (namespace, name) SELECT {namespace}, w.name FROM {names} AS w (name) \
             WHERE NOT EXISTS (SELECT 1 FROM leader_names n WHERE n.namespace = {namespace} AND n.name = w.name) \
             ORDER BY w.name COLLATE \"C\" ON CONFLICT DO NOTHING",
            namespace = self.namespace(),
            names = elements(&json_names(names)),
        );
        self.run(&statement).await.map(drop)
    }

    async fn open(&mut self, id: SessionId) -> Result<(), StoreError> {
        let statement = format!(
            "INSERT INTO leader_sessions (id, namespace, instance, started_at_ms, expires_at_ms) \
             SELECT '{id}', {}, {}, t.now, t.now + {} FROM (SELECT {NOW} AS now) AS t",
            self.namespace(),
            text(&self.scope.instance),
            self.scope.lease_ms(),
        );
        self.run(&statement).await.map(drop)
    }

    async fn renew(&mut self, id: SessionId) -> Result<Option<Digest>, StoreError> {
        let statement = format!(
            "UPDATE leader_sessions s SET expires_at_ms = {NOW} + {lease} WHERE s.id = '{id}' AND s.expires_at_ms > {NOW} RETURNING \
             (SELECT count(*) FROM leader_names n WHERE n.namespace = s.namespace AND n.session_id = s.id), \
             (SELECT coalesce(sum(n.term), 0)::bigint FROM leader_names n WHERE n.namespace = s.namespace AND n.session_id = s.id)",
            lease = self.scope.lease_ms(),
        );
        let rows = self.run(&statement).await?;
        rows.first()
            .map(|row| {
                let count: i64 = get(row, 0)?;
                Ok(Digest { count: count.unsigned_abs(), terms: get(row, 1)? })
            })
            .transpose()
    }

    async fn held(&mut self, id: SessionId) -> Result<Vec<Hold>, StoreError> {
        let statement = format!(
            "SELECT name, term FROM leader_names WHERE namespace = {} AND session_id = '{id}'",
            self.namespace()
        );
        holds(&self.run(&statement).await?)
    }

    async fn scan(&mut self, id: SessionId) -> Result<Scan, StoreError> {
        // One statement, one snapshot: a session that it does not see although a name points to it is gone for ever.
        let statement = format!(
            "WITH t AS MATERIALIZED (SELECT {NOW} AS now), \
             s AS MATERIALIZED (SELECT id, instance, expires_at_ms - t.now AS left_ms FROM leader_sessions, t WHERE namespace = {namespace}) \
             SELECT n.name, n.session_id, s.id IS NOT NULL AS expired, NULL::bigint AS number, NULL::text AS instance FROM leader_names n LEFT JOIN s ON s.id = n.session_id \
             WHERE n.namespace = {namespace} AND (s.id IS NULL OR s.left_ms <= 0) \
             UNION ALL SELECT NULL, s.id, true, NULL, s.instance FROM s WHERE s.left_ms <= 0 \
             UNION ALL SELECT NULL, NULL, NULL, (SELECT min(left_ms) FROM s WHERE left_ms > 0 AND id <> '{id}'), NULL \
             UNION ALL SELECT NULL, NULL, false, (SELECT count(*) FROM leader_names WHERE namespace = {namespace}), NULL",
            namespace = self.namespace(),
        );
        let rows = &self.run(&statement).await?;
        super::scan(rows.iter().map(|row| {
            Ok(ScanRow {
                name: get(row, 0)?,
                session: get(row, 1)?,
                expired: get(row, 2)?,
                number: get(row, 3)?,
                instance: get(row, 4)?,
            })
        }))
    }

    async fn reap(&mut self, ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError> {
        // A session whose renewal is in flight is skipped, not waited for: the renewal wins.
        let statement = format!(
            "DELETE FROM leader_sessions WHERE id IN (SELECT id FROM leader_sessions WHERE id = ANY({}) \
             AND expires_at_ms <= {NOW} FOR UPDATE SKIP LOCKED) RETURNING id",
            session_ids(ids)
        );
        let rows = self.run(&statement).await?;
        rows.iter().map(|row| session_id(&get::<String>(row, 0)?)).collect()
    }

    async fn claim(
        &mut self,
        id: SessionId,
        names: &[WorkName],
        gone: &[SessionId],
    ) -> Result<Vec<Hold>, StoreError> {
        // It reads no session but its own. Whether another's is gone is passed by value: the lock re-reads the row of
        // the name and would not re-read a subquery (I1).
        // The usual claim is for one name that nobody holds, and planned in less time.
        let these = match names {
            [name] => format!("n.name = {}", text(name.as_str())),
            many => format!("n.name = ANY(ARRAY(SELECT {}))", elements(&json_names(many))),
        };
        let free = match gone {
            [] => "n.session_id IS NULL".to_owned(),
            gone => format!("(n.session_id IS NULL OR n.session_id = ANY({}))", session_ids(gone)),
        };
        let statement = format!(
            "UPDATE leader_names o SET session_id = '{id}', term = greatest(o.term + 1, {NOW}), elected_at_ms = {NOW} \
             WHERE o.ctid = ANY(ARRAY(SELECT n.ctid FROM leader_names n WHERE n.namespace = {} AND {these} AND {free} \
               AND EXISTS (SELECT 1 FROM leader_sessions m WHERE m.id = '{id}' AND m.expires_at_ms > {NOW}) \
               ORDER BY n.name FOR UPDATE OF n SKIP LOCKED)) RETURNING o.name, o.term",
            self.namespace(),
        );
        holds(&self.run(&statement).await?)
    }

    async fn release(&mut self, id: SessionId, held: &[Hold]) -> Result<Vec<Hold>, StoreError> {
        // The usual one is one, and planned in half the time.
        let (these, one) = match held {
            [(name, term)] => (
                format!("WHERE m.name = {} AND m.term = {term} AND", text(name.as_str())),
                literal(name.as_str()),
            ),
            many => (
                format!(
                    "JOIN (SELECT e->>0 AS name, (e->>1)::bigint AS term FROM json_array_elements({}::json) AS e) AS h \
                     ON h.name = m.name AND h.term = m.term WHERE",
                    text(&json_holds(many)),
                ),
                None,
            ),
        };
        let release = format!(
            "UPDATE leader_names n SET session_id = NULL WHERE n.ctid = ANY(ARRAY(SELECT m.ctid FROM leader_names m {these} \
               m.namespace = {} AND m.session_id = '{id}' FOR UPDATE OF m SKIP LOCKED)) RETURNING n.name",
            self.namespace(),
        );
        let freed = match one {
            Some(name) if !self.left_behind => self.free_one(&release, &name).await?,
            _ => self.free(&release).await?,
        };
        self.left_behind = freed.len() < held.len();
        if !self.left_behind {
            return Ok(Vec::new());
        }
        // The others are locked, or not ours any more.
        Ok(super::asked(self.held(id).await?, held))
    }

    async fn end_fenced(&mut self, fenced: &[(WorkName, SessionId)]) -> Result<u64, StoreError> {
        // By what the fence wrote into `application_name`. It holds the beginning of the name only, and so a living tenure
        // can have the same: then nothing is ended. Roles may end what belongs to them.
        let fenced: Vec<String> = fenced
            .iter()
            .map(|(name, session)| {
                let label = crate::transaction::postgres::label(name.as_str());
                format!("({}, '{session}', '{label}')", text(name.as_str()))
            })
            .collect();
        let statement = format!(
            "WITH ended AS MATERIALIZED (SELECT pg_terminate_backend(a.pid) AS done FROM (VALUES {fenced}) AS f (name, session, label) \
               JOIN leader_names n ON n.namespace = {namespace} AND n.name = f.name AND n.session_id = f.session \
               JOIN pg_stat_activity a ON a.datname = current_database() AND a.application_name = left('leader:' || n.term || ':' || f.label, 63) \
               WHERE pg_has_role(a.usesysid, 'USAGE') \
               AND NOT EXISTS (SELECT 1 FROM leader_names o JOIN leader_sessions s ON s.id = o.session_id WHERE s.id = f.session \
                 OR o.term = n.term AND a.application_name = left('leader:' || o.term || ':' || regexp_replace(o.name, '[^A-Za-z0-9_.:/-]', '?', 'g'), 63))) \
             SELECT count(*) FROM ended WHERE done",
            fenced = fenced.join(", "),
            namespace = self.namespace(),
        );
        let rows = self.run(&statement).await.map_err(may_not_end)?;
        let count: i64 = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        Ok(count.unsigned_abs())
    }

    async fn close(&mut self, id: SessionId) -> Result<(), StoreError> {
        // Which names that frees is for a look to find: an announcement proves nothing, and a claim from a session needs the
        // proof that it is gone (I1).
        self.free(&format!("DELETE FROM leader_sessions WHERE id = '{id}' RETURNING ''")).await.map(drop)
    }

    fn hang_up(&mut self) {
        self.dialled = None;
    }

    async fn changed(&mut self) -> Hint {
        self.heard.take().await
    }

    fn companion(&mut self) -> Option<Companion> {
        let address = self.address.clone();
        let channel = self.channel();
        let heard = Arc::clone(&self.heard);
        Some(Box::pin(async move { listener::listen(address, channel, heard).await }))
    }
}

/// A channel per namespace, by FNV-1a: equal names mean equal channels, and a collision only wakes somebody in vain.
fn channel(namespace: &str) -> String {
    let hash = namespace.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("leader_{hash:016x}")
}

/// 54000: somebody has listened for days in one transaction, so that nothing of the queue can be forgotten. 22023: pages
/// of less than 8 KiB, and so many names.
fn takes_no_notification(error: &sqlx::Error) -> bool {
    matches!(code(error), Some("54000" | "22023"))
}

/// Rights that were refused are not those on the tables.
fn may_not_end(error: StoreError) -> StoreError {
    let help = "grant the role EXECUTE on the function pg_terminate_backend, or end them by hand";
    match error.cause {
        Cause::Refused(_) => StoreError::new(Cause::Refused(help.to_owned()), error.source),
        _ => error,
    }
}

/// A text as an expression that reads the same under every setting of strings and escapes.
pub(crate) fn text(text: &str) -> String {
    literal(text).unwrap_or_else(|| format!("convert_from(decode('{}','hex'),'UTF8')", hex(text)))
}

/// A text as a literal, where every setting of strings, escapes and encodings reads it the same.
fn literal(text: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" _-.:/".contains(&byte);
    text.bytes().all(plain).then(|| format!("'{text}'"))
}

fn elements(json: &str) -> String {
    format!("json_array_elements_text({}::json)", text(json))
}

fn session_ids(ids: &[SessionId]) -> String {
    format!("ARRAY(SELECT json_array_elements_text('{}'))", json_ids(ids))
}

fn holds<'r>(rows: impl IntoIterator<Item = &'r PgRow>) -> Result<Vec<Hold>, StoreError> {
    super::holds(rows.into_iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))))
}

fn get<'r, T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>>(
    row: &'r PgRow,
    column: usize,
) -> Result<T, StoreError> {
    row.try_get(column).map_err(failed)
}

/// The code of a database's error.
pub(crate) fn code(error: &sqlx::Error) -> Option<&str> {
    let error = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    Some(error.code())
}

/// Judges an error by its code.
pub(crate) fn failed(error: sqlx::Error) -> StoreError {
    let cause = match code(&error) {
        Some("40001" | "40P01" | "55P03") => Cause::Transient,
        Some("42P01") => Cause::NoTables,
        Some("42501") => Cause::Refused(format!(
            "grant the role SELECT, INSERT and UPDATE on both tables, and DELETE on `leader_sessions`; if they are missing, let it create them or run this SQL:\n{TABLES}"
        )),
        Some("25006") => Cause::Refused(READ_ONLY.to_owned()),
        _ => Cause::Broken,
    };
    StoreError::new(cause, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_an_identifier_of_its_namespace() {
        assert_eq!(channel("default").len(), "leader_".len() + 16);
        assert_eq!(channel("a"), channel("a"));
        assert_ne!(channel("a"), channel("b"));
    }

    #[test]
    fn no_text_can_break_out_of_its_expression() {
        assert_eq!(text("nightly report_2.1:a/b-c"), "'nightly report_2.1:a/b-c'");
        for (hostile, hex) in
            [("';--", "273b2d2d"), ("\\", "5c"), ("a\n", "610a"), ("ü", "c3bc"), ("$$", "2424")]
        {
            assert_eq!(text(hostile), format!("convert_from(decode('{hex}','hex'),'UTF8')"));
        }
    }
}
