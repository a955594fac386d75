//! What a replica leads, and who leads what.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sqlx::Pool;

use crate::name::WorkName;
use crate::protocol::Term;
use crate::transaction::Fenced;

/// Who leads what, on all replicas, by the tables of a database: every name of every namespace, sorted.
///
/// It only reads, and can be asked by anybody who may read the tables. The answer was true when the database gave it.
///
/// ```
/// # #[cfg(feature = "sqlite")] mod example {
/// async fn print(pool: &sqlx::SqlitePool) -> sqlx::Result<()> {
///     for lease in leader::status(pool).await? {
///         match lease.holder {
///             Some(holder) => println!("{} is led by {} under term {}", lease.name, holder.instance, lease.term),
///             None => println!("nobody leads {}", lease.name),
///         }
///     }
///     Ok(())
/// }
/// # }
/// ```
///
/// # Errors
///
/// What the database says, for one that has no tables of `leader` among other things.
pub async fn status<DB: Fenced>(pool: &Pool<DB>) -> sqlx::Result<Vec<Lease>> {
    DB::leases(pool).await
}

/// A name and who holds it, by the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The deployment that the name belongs to.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The term of the last claim, or 0 if there was none.
    pub term: Term,
    /// When that was, by the database's clock.
    pub elected_at: Option<SystemTime>,
    /// The session that holds it, if that has a row.
    pub holder: Option<Holder>,
    /// The session that held it last, if that is gone and nobody was elected since: no replica campaigns for the name, or
    /// a fenced transaction of the last leader is still open.
    pub left_by: Option<String>,
}

/// The session that holds a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The replica.
    pub instance: String,
    /// The id of its session.
    pub session: String,
    /// How long until it expires unless it is renewed. Nothing left: it has expired, and no standby has reaped it yet.
    pub expires_in: Duration,
}

/// The statement that `lease!` reads; `now` is the present in the dialect's own words.
pub(crate) fn leases(now: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!(
        "SELECT n.namespace, n.name, n.term, n.elected_at_ms, s.id, s.instance, s.expires_at_ms - {now}, n.session_id \
         FROM leader_names n LEFT JOIN leader_sessions s ON s.id = n.session_id ORDER BY n.namespace, n.name"
    ))
}

/// Reads a lease from a row of eight columns: namespace, name, term, `elected_at_ms`, session, instance, remaining ms and
/// the session that the name points to, which may be gone.
/// Some databases have names in another form than text.
macro_rules! lease {
    ($row:ident) => {
        lease!($row, |text: String| text)
    };
    ($row:ident, $text:expr) => {{
        let session: Option<String> = $row.try_get(4)?;
        let instance: Option<String> = $row.try_get(5)?;
        let left: Option<i64> = $row.try_get(6)?;
        let elected_at: Option<i64> = $row.try_get(3)?;
        let pointed_to: Option<String> = $row.try_get(7)?;
        Ok($crate::status::Lease {
            namespace: $text($row.try_get(0)?),
            name: $text($row.try_get(1)?),
            term: $crate::protocol::Term::new($row.try_get(2)?),
            elected_at: elected_at.map(|at| std::time::SystemTime::UNIX_EPOCH + $crate::store::left(at)),
            left_by: pointed_to.filter(|_| session.is_none()),
            holder: session.zip(instance).map(|(session, instance)| $crate::status::Holder {
                instance,
                session,
                expires_in: left.map($crate::store::left).unwrap_or_default(),
            }),
        })
    }};
}
pub(crate) use lease;

/// What a replica leads, as its elector sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The replica.
    pub instance: Arc<str>,
    /// The namespace of its names.
    pub namespace: Arc<str>,
    /// The id of its session, if it has one.
    pub session: Option<String>,
    /// When its session was last renewed, by this machine's clock.
    pub last_renewal: Option<SystemTime>,
    /// Every work that this replica campaigns for, sorted by name.
    pub works: Vec<WorkStatus>,
}

impl Status {
    /// The names that this replica leads.
    pub fn leading(&self) -> impl Iterator<Item = &WorkName> {
        self.works.iter().filter(|work| matches!(work.role, Role::Leading { .. })).map(|work| &work.name)
    }
}

/// Where a replica stands with one work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkStatus {
    /// The name of the work.
    pub name: WorkName,
    /// Where this replica stands with it.
    pub role: Role,
}

/// Where a replica stands with one work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It campaigns, or waits until it campaigns again.
    Standby,
    /// It campaigns, and nobody can be elected: the last leader is gone, and a fenced transaction of it is still open. The
    /// server ends that at the bounds of the fence, or a standby does (PostgreSQL); on SQLite nobody does.
    #[non_exhaustive]
    Fenced {
        /// The session of the last leader, which is gone.
        session: String,
        /// The replica that had it, if this one saw it expire.
        instance: Option<Arc<str>>,
        /// When the first claim was turned away, by this machine's clock.
        since: SystemTime,
    },
    /// Its work runs.
    #[non_exhaustive]
    Leading {
        /// The term of the tenure.
        term: Term,
        /// When it was elected, by this machine's clock.
        since: SystemTime,
        /// The trace id of the tenure.
        trace_id: Arc<str>,
    },
    /// The tenure is over, and its work still runs or the name is still to be given back.
    #[non_exhaustive]
    Ending {
        /// The term of the tenure.
        term: Term,
    },
}
