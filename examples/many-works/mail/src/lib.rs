//! Puts mails from a table into a directory, from which a mail server collects them.
//!
//! Guaranteed: each mail is put there whole, and at least once, whatever happens to replicas and their machines. It is on the
//! disk before it is marked.
//!
//! Not guaranteed: that it is put there once. A tenure that ends between put and mark leaves up to a batch to the next, which
//! puts it there again, under the same names. What the server has collected meanwhile goes out twice. And a process that dies
//! while it puts one leaves a `.part`, which nobody needs and nobody removes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use db::{Db, on};
use leader::{State, Tenure, Term, TransactionError};
use tokio::fs;

/// The directory. Only the application knows where it is.
#[derive(Clone, Debug)]
pub struct Spool(pub PathBuf);

#[leader::work("mail")]
async fn mail(tenure: Tenure, State(db): State<Db>, State(spool): State<Spool>) -> anyhow::Result<()> {
    loop {
        let mails = tenure.until_ended(waiting(&db)).await??;
        if mails.is_empty() {
            tenure.sleep(Duration::from_secs(1)).await?;
            continue;
        }
        for (id, text) in &mails {
            tenure.check()?;
            spool.put(tenure.term(), *id, text).await?;
        }
        sync(&spool.0).await?;
        mark(&tenure, &db, mails).await?;
    }
}

async fn waiting(db: &Db) -> sqlx::Result<Vec<(i64, String)>> {
    const WAITING: &str = "SELECT id, text FROM mails WHERE NOT spooled ORDER BY id LIMIT 100";

    on!(db, pool => sqlx::query_as(WAITING).fetch_all(pool).await)
}

impl Spool {
    /// Under its own name when it is whole, and on the disk. The part is the tenure's own: who wakes up in here does not
    /// write into that of his successor.
    async fn put(&self, term: Term, id: i64, text: &str) -> io::Result<()> {
        let (part, whole) = (self.0.join(format!("{id}.{term}.part")), self.0.join(format!("{id}.mail")));
        fs::write(&part, text).await?;
        sync(&part).await?;
        fs::rename(part, whole).await
    }
}

/// Waits until the disk has what was written to a file, or renamed in a directory.
async fn sync(path: &Path) -> io::Result<()> {
    fs::File::open(path).await?.sync_all().await
}

async fn mark(tenure: &Tenure, db: &Db, mails: Vec<(i64, String)>) -> Result<(), TransactionError> {
    const MARK: &str = "UPDATE mails SET spooled = TRUE WHERE id = $1";

    on!(db, pool => tenure.transaction(pool, async |tx| {
        for (id, _) in mails {
            sqlx::query(MARK).bind(id).execute(&mut **tx).await?;
        }
        Ok(())
    }).await)
}
