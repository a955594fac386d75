//! The seam between the protocol and a database: one operation a statement of the protocol, each a transaction of its
//! own, and nothing that decides anything.

mod any;
#[cfg(any(test, feature = "test-util"))]
pub(crate) mod memory;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

pub use any::AnyStore;

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::name::{Namespace, WorkName};
use crate::protocol::{Digest, Hint, Hold, Holder, Scan, SessionId, Term, Vacancy};
use crate::work::BoxError;

/// A task that belongs to a store and lives as long as its keeper.
pub type Companion = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A database that carries sessions and names.
///
/// Every operation is one transaction of the keeper's own connection, dialled when it is needed. An operation that is
/// dropped half-way leaves the connection unusable: [`hang_up`](Self::hang_up) and let the next operation dial anew.
pub trait Store: Send + 'static {
    /// Checks that the database can carry leases, and creates the tables that are missing, or looks whether they are
    /// there if `create` is not set.
    fn prepare(&mut self, create: bool) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Gives each name a row. `names` are in the order of their bytes.
    fn ensure(&mut self, names: &[WorkName]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Inserts a session that expires after a lease.
    fn open(&mut self, id: SessionId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Pushes the session's expiry, if it has not expired; says what it holds, or nothing if it is lost.
    fn renew(&mut self, id: SessionId) -> impl Future<Output = Result<Option<Digest>, StoreError>> + Send;

    /// The names that point to the session.
    fn held(&mut self, id: SessionId) -> impl Future<Output = Result<Vec<Hold>, StoreError>> + Send;

    /// Looks at every name and session, in one snapshot. `id` is the session of the one who looks: its own expiry is
    /// of no interest.
    fn scan(&mut self, id: SessionId) -> impl Future<Output = Result<Scan, StoreError>> + Send;

    /// Deletes those sessions that have expired, and says which it deleted (I1).
    fn reap(&mut self, ids: &[SessionId]) -> impl Future<Output = Result<Vec<SessionId>, StoreError>> + Send;

    /// Claims those names that point to no session or to one of `gone`, under a larger term, if the own session has
    /// not expired (I1, I2); skips names whose row is locked (I3).
    fn claim(
        &mut self,
        id: SessionId,
        names: &[WorkName],
        gone: &[SessionId],
    ) -> impl Future<Output = Result<Vec<Hold>, StoreError>> + Send;

    /// Gives names back where session and term are the given ones, and wakes standbys. Answers with those it still
    /// holds because their row is locked.
    fn release(
        &mut self,
        id: SessionId,
        holds: &[Hold],
    ) -> impl Future<Output = Result<Vec<Hold>, StoreError>> + Send;

    /// Ends the transactions that keep these names from being claimed, each under a term of a session that is gone
    /// (I8), where the database can tell which they are. How many it ended.
    fn end_fenced(
        &mut self,
        fenced: &[(WorkName, SessionId)],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        let _ = fenced;
        async { Ok(0) }
    }

    /// Deletes the session, which frees all of its names, and wakes standbys.
    fn close(&mut self, id: SessionId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Drops the connection without a word to the server.
    fn hang_up(&mut self);

    /// Resolves when names may have become free. A hint, no more.
    ///
    /// Cancel safe.
    fn changed(&mut self) -> impl Future<Output = Hint> + Send;

    /// What must run beside the keeper for [`changed`](Self::changed) to know.
    fn companion(&mut self) -> Option<Companion> {
        None
    }
}

/// What every store needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) namespace: Namespace,
    /// For people only.
    pub(crate) instance: String,
    pub(crate) lease: Duration,
    /// After which the server gives a statement up as well.
    pub(crate) attempt: Duration,
    /// How often a standby looks where nothing wakes it.
    pub(crate) look: Duration,
}

impl Scope {
    pub(crate) fn lease_ms(&self) -> i64 {
        millis(self.lease)
    }
}

/// An operation that failed.
#[derive(Debug)]
pub struct StoreError {
    pub(crate) cause: Cause,
    pub(crate) source: BoxError,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A deadlock, a serialization failure, a lock wait or a busy file: the statement did nothing, and can be sent
    /// again at once.
    Transient,
    /// The tables are not there.
    NoTables,
    /// The role lacks rights, or the server or file is read-only; what to do about it is in the text.
    Refused(String),
    /// Anything else: the connection is not used again.
    Broken,
}

impl StoreError {
    pub(crate) fn new(cause: Cause, source: impl Into<BoxError>) -> Self {
        Self { cause, source: source.into() }
    }

    /// Whether the statement did nothing and can be sent again at once.
    pub fn is_transient(&self) -> bool {
        self.cause == Cause::Transient
    }

    /// A database whose kind or version cannot carry leases.
    pub(crate) fn unfit(why: impl Into<BoxError>) -> Self {
        Self::new(Cause::Broken, why)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Refused(help) => write!(f, "{}: {help}", self.source),
            _ => self.source.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}

/// Touches nothing, and is refused all the same where a right is missing.
pub(crate) const RIGHTS: &str = "UPDATE leader_names SET term = term WHERE false; \
     UPDATE leader_sessions SET expires_at_ms = expires_at_ms WHERE false; DELETE FROM leader_sessions WHERE false";

/// Whole milliseconds, as the tables count.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A remaining time told by the database.
pub(crate) fn left(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// The tables are missing, and nobody may create them.
pub(crate) fn missing(tables: &str) -> StoreError {
    let why = "the tables of `leader` are missing and creating them is turned off; run this SQL";
    StoreError::new(Cause::NoTables, format!("{why}:\n{tables}"))
}

/// Reads an id back from the tables.
pub(crate) fn session_id(text: &str) -> Result<SessionId, StoreError> {
    SessionId::parse(text).ok_or_else(|| {
        StoreError::new(Cause::Broken, format!("`{text}` in the tables is not the id of a session"))
    })
}

/// Reads names and terms back from the tables. A name that no `WorkName` can be was not written by this library, and
/// nobody campaigns for it.
pub(crate) fn holds(
    rows: impl IntoIterator<Item = Result<(String, i64), StoreError>>,
) -> Result<Vec<Hold>, StoreError> {
    let mut holds = Vec::new();
    for row in rows {
        let (name, term) = row?;
        if let Ok(name) = WorkName::new(name) {
            holds.push((name, Term::new(term)));
        }
    }
    Ok(holds)
}

/// A row of a scan, the same five columns on every database: a vacant name with the session it points to and whether
/// that has expired; an expired session and its replica; the time until the next expiry; or, if `expired` is false, the
/// number of names.
pub(crate) struct ScanRow {
    pub(crate) name: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) expired: Option<bool>,
    pub(crate) number: Option<i64>,
    pub(crate) instance: Option<String>,
}

pub(crate) fn scan(rows: impl IntoIterator<Item = Result<ScanRow, StoreError>>) -> Result<Scan, StoreError> {
    let mut scan = Scan::default();
    for row in rows {
        let ScanRow { name, session, expired, number, instance } = row?;
        let session = match session.as_deref().map(session_id).transpose() {
            Ok(session) => session,
            Err(error) => {
                leave_out(&error, name.as_deref());
                continue;
            }
        };
        match (name, session, expired) {
            (Some(name), session, expired) => {
                if let Ok(name) = WorkName::new(name) {
                    let holder = session.map(|id| match expired {
                        Some(true) => Holder::Expired(id),
                        _ => Holder::Gone(id),
                    });
                    scan.vacancies.push(Vacancy { name, holder });
                }
            }
            (None, Some(id), _) => scan.expired.push((id, instance.unwrap_or_default())),
            (None, None, None) => scan.next_expiry = number.map(left),
            (None, None, Some(_)) => scan.rows = number.unwrap_or_default().unsigned_abs(),
        }
    }
    Ok(scan)
}

/// The tables refuse such a row, unless somebody made others. It must not stop everything else, and is told once.
fn leave_out(error: &StoreError, name: Option<&str>) {
    const MOST: usize = 1_000;
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let news = told.len() < MOST && told.insert(format!("{name:?}: {error}"));
    drop(told);
    if !news {
        return;
    }
    if let Some(name) = name {
        tracing::error!(%error, name, "nobody can be elected to this name; set its `session_id` to NULL");
    } else {
        tracing::error!(%error, "a session cannot be read; delete it");
    }
}

/// Those of the names still held that were asked for under this very term.
pub(crate) fn asked(held: Vec<Hold>, asked: &[Hold]) -> Vec<Hold> {
    let asked: std::collections::HashSet<&Hold> = asked.iter().collect();
    held.into_iter().filter(|hold| asked.contains(hold)).collect()
}

/// Bytes as hexadecimal digits, which every SQL dialect and setting reads the same way.
pub(crate) fn hex(text: &str) -> String {
    use std::fmt::Write as _;

    text.bytes().fold(String::with_capacity(text.len() * 2), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// A JSON array of the items, each of them valid JSON.
fn json_array<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(","))
}

/// A name as a JSON string. Names hold no control characters, so that two escapes are all.
pub(crate) fn json_name(name: &WorkName) -> String {
    format!("\"{}\"", name.as_str().replace('\\', "\\\\").replace('"', "\\\""))
}

/// Names as a JSON array of strings.
pub(crate) fn json_names(names: &[WorkName]) -> String {
    json_array(names.iter().map(json_name))
}

/// Ids of sessions as a JSON array of strings.
pub(crate) fn json_ids(ids: &[SessionId]) -> String {
    json_array(ids.iter().map(|id| format!("\"{id}\"")))
}

/// Names and terms as a JSON array of pairs.
pub(crate) fn json_holds(holds: &[Hold]) -> String {
    json_array(holds.iter().map(|(name, term)| format!("[{},{term}]", json_name(name))))
}
