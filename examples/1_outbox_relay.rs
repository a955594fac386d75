//! Sends what other programs put into an outbox table to a receiver over HTTP.
//!
//! A program that changes something and must tell others inserts the message in the same transaction. This one sends it.
//!
//! Guaranteed:
//! - Every record is sent at least once, whatever happens to replicas.
//! - Records of one key are sent in the order of their ids. (Whoever writes them sees to it that they are committed in
//!   that order, by a lock on what the key stands for.)
//! - A record is marked as sent once, by the replica that leads.
//!
//! Not guaranteed: that a record is sent once. A tenure that ends between send and mark leaves up to a batch to be sent
//! again by the next, and a process that is frozen just before it sends does so when it wakes up. So the receiver knows
//! the ids that it has; it may also refuse a term that is smaller than one it has seen.
//!
//! ```console
//! $ cargo run --features programs --bin outbox_relay -- --receiver http://127.0.0.1:8080/records
//! $ sqlite3 outbox.db "INSERT INTO outbox (key, payload) VALUES ('order 7', 'paid')"
//! ```

mod shared;

use std::time::Duration;

use clap::Parser;
use db::{Db, on};
use leader::{State, Tenure, Term, Timings, TransactionError};
use reqwest::{Client, Url};
use serde::Serialize;
use sqlx::QueryBuilder;

const OUTBOX: &str = "
    CREATE TABLE IF NOT EXISTS outbox (
        id {counts}, key TEXT NOT NULL, payload TEXT NOT NULL, sent_at TIMESTAMP
    );
    CREATE INDEX IF NOT EXISTS outbox_pending ON outbox (id) WHERE sent_at IS NULL";

/// How many records are sent, and marked, together.
const BATCH: i64 = 50;

#[leader::work("outbox_relay")]
async fn outbox_relay(
    tenure: Tenure,
    State(db): State<Db>,
    State(receiver): State<Receiver>,
) -> anyhow::Result<()> {
    loop {
        let batch = tenure.until_ended(pending(&db)).await??;
        if batch.is_empty() {
            tenure.sleep(Duration::from_millis(200)).await?;
            continue;
        }
        // Somebody else may lead by now, if this process was frozen while it read.
        tenure.check()?;
        if let Err(error) = tenure.until_ended(receiver.take(tenure.term(), &batch)).await? {
            tracing::warn!(%error, "the receiver did not take the records; they are sent again");
            tenure.sleep(Duration::from_secs(1)).await?;
            continue;
        }
        mark_sent(&tenure, &db, &batch).await?;
    }
}

#[derive(Serialize)]
struct Record {
    id: i64,
    key: String,
    payload: String,
}

async fn pending(db: &Db) -> sqlx::Result<Vec<Record>> {
    const PENDING: &str = "SELECT id, key, payload FROM outbox WHERE sent_at IS NULL ORDER BY id LIMIT $1";

    let rows = on!(db, pool => sqlx::query_as(PENDING).bind(BATCH).fetch_all(pool).await?);
    Ok(rows.into_iter().map(|(id, key, payload)| Record { id, key, payload }).collect())
}

/// Fenced: a replica that was frozen after the send, and has a successor, marks nothing.
async fn mark_sent(tenure: &Tenure, db: &Db, batch: &[Record]) -> Result<(), TransactionError> {
    on!(db, pool => tenure.transaction(pool, async |tx| {
        let mut update = QueryBuilder::new("UPDATE outbox SET sent_at = CURRENT_TIMESTAMP WHERE id IN (");
        let mut ids = update.separated(", ");
        for record in batch {
            ids.push_bind(record.id);
        }
        ids.push_unseparated(")");
        update.build().execute(&mut **tx).await?;
        Ok(())
    }).await)
}

#[derive(Clone)]
struct Receiver {
    client: Client,
    url: Url,
}

impl Receiver {
    async fn take(&self, term: Term, batch: &[Record]) -> reqwest::Result<()> {
        let request = self.client.post(self.url.clone()).header("leader-term", term.get()).json(batch);
        request.send().await?.error_for_status().map(drop)
    }
}

/// Sends what other programs put into an outbox table to a receiver over HTTP
#[derive(Parser)]
struct Flags {
    /// Where the outbox is
    #[arg(long, env, default_value = "sqlite:outbox.db")]
    database_url: String,
    /// Where the records are posted to, as JSON
    #[arg(long, env)]
    receiver: Url,
    /// Seconds that a lease lasts; the other timings keep their proportions to it
    #[arg(long = "lease", env = "LEASE", default_value = "15", value_parser = shared::timings)]
    timings: Timings,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    shared::log();
    let db = Db::connect(&flags.database_url).await?;
    db.create(OUTBOX).await?;
    let client = Client::builder().timeout(Duration::from_secs(10)).build()?;

    leader::Elector::builder()
        .database(&db)
        .timings(flags.timings)
        .state(db)
        .state(Receiver { client, url: flags.receiver })
        .run()
        .await?;
    Ok(())
}
