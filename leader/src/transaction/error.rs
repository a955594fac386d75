//! Why a transaction was refused or failed.

use crate::protocol::Ending;
use crate::tenure::Ended;

/// A transaction that was refused or failed. `Display` leaves the cause out: it is the `source`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The tenure is over.
    #[error("the transaction is refused")]
    Ended(#[from] Ended),
    /// The database of this pool knows nothing of the tenure, which goes on. (On SQLite a transaction that
    /// [`fence`](crate::Tenure::fence) is called on can keep the keeper from asking, and then nobody knows whether it does.)
    #[error(
        "this database does not know the tenure: its tables were emptied, or it is not the elector's; for another database use `begin_elsewhere`"
    )]
    Unknown,
    /// The database rolled the transaction back before its commit: a statement had failed, or a deadlock had ended it.
    /// Nothing is committed; run the transaction again. (On MySQL and MariaDB a statement that commits implicitly, one
    /// that changes a table's definition say, ends the transaction too, and what came before it is committed then. On SQLite
    /// a statement can roll the whole transaction back, by `ON CONFLICT ROLLBACK` or for a full disk: what was written after it,
    /// in spite of its error, is committed without a fence.)
    #[error("the transaction was rolled back before its commit; run it again")]
    RolledBack,
    /// The lease was lost while the database gave no answer to the commit: it may have committed, under the old term
    /// and before anybody else was elected, or not. A work that returns it is logged as failed: it is more than an ending, and so
    /// the ending is not its `source`.
    #[error(
        "the lease was lost before the database answered the commit: it may have committed, or not; look before you write it again"
    )]
    OutcomeUnknown(Ended),
    /// A concurrent change made the fence fail: roll back and run the transaction again.
    #[error("the fence met a concurrent change; run the transaction again")]
    Conflict(#[source] sqlx::Error),
    /// [`Tenure::fence`](crate::Tenure::fence) was called on a connection that is not in a transaction begun through sqlx.
    #[error("a fence protects nothing outside a transaction; call `begin` on the connection first")]
    NotInTransaction,
    /// The database refused a statement or did not answer.
    #[error("a statement of the transaction failed")]
    Sqlx(#[from] sqlx::Error),
}

impl From<Ending> for TransactionError {
    fn from(ending: Ending) -> Self {
        Self::Ended(Ended(ending))
    }
}
