//! Goes through a table from its first row to its last, and adds up what it finds.
//!
//! Guaranteed: each row is counted once, whatever happens to replicas. The totals of a batch and the cursor behind it are
//! written in one fenced transaction, so the next tenure goes on exactly where the last one got to. A tenure that is cut,
//! anywhere, loses the batch in flight and nothing else. That is why this work is `on_end = "drop"`: no line of it asks
//! whether the tenure goes on.
//!
//! Not guaranteed: that a row is counted that appears behind the cursor. (On PostgreSQL two transactions that insert at
//! once may be committed in the other order than their ids: scan a table that only grows up to what is old enough.) And
//! what a batch does outside the database is done again with the batch.
//!
//! ```console
//! $ cargo run --features programs --bin resumable_scan
//! $ sqlite3 scan.db "INSERT INTO orders (customer, amount) VALUES ('Ada', 1200), ('Bob', 300), ('Ada', 50)"
//! $ sqlite3 scan.db "SELECT * FROM totals"
//! ```

mod shared;

use std::collections::BTreeMap;
use std::num::ParseIntError;
use std::time::Duration;

use clap::Parser;
use db::{Db, on};
use leader::{State, Tenure, Timings, TransactionError};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (id {counts}, customer TEXT NOT NULL, amount BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS totals (customer TEXT PRIMARY KEY, orders BIGINT NOT NULL, amount BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS scans (name TEXT PRIMARY KEY, last_id BIGINT NOT NULL)";

#[leader::work("order_totals", on_end = "drop")]
async fn order_totals(
    tenure: Tenure,
    State(db): State<Db>,
    State(Pause(pause)): State<Pause>,
) -> anyhow::Result<()> {
    let mut cursor = cursor(&db).await?;
    loop {
        let orders = orders_after(&db, cursor).await?;
        let Some(last) = orders.last() else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        cursor = last.id;
        book(&tenure, &db, totals(&orders), cursor).await?;
        // The database has others to serve.
        tokio::time::sleep(pause).await;
    }
}

struct Order {
    id: i64,
    customer: String,
    amount: i64,
}

/// Behind the last order that was counted.
async fn cursor(db: &Db) -> sqlx::Result<i64> {
    const CURSOR: &str = "SELECT last_id FROM scans WHERE name = 'order_totals'";

    let cursor = on!(db, pool => sqlx::query_scalar(CURSOR).fetch_optional(pool).await?);
    Ok(cursor.unwrap_or(0))
}

async fn orders_after(db: &Db, cursor: i64) -> sqlx::Result<Vec<Order>> {
    const ORDERS: &str = "SELECT id, customer, amount FROM orders WHERE id > $1 ORDER BY id LIMIT 100";

    let rows = on!(db, pool => sqlx::query_as(ORDERS).bind(cursor).fetch_all(pool).await?);
    Ok(rows.into_iter().map(|(id, customer, amount)| Order { id, customer, amount }).collect())
}

/// How many orders each customer has, and of what amount.
fn totals(orders: &[Order]) -> BTreeMap<&str, (i64, i64)> {
    let mut totals = BTreeMap::<&str, (i64, i64)>::new();
    for order in orders {
        let (orders, amount) = totals.entry(&order.customer).or_default();
        *orders += 1;
        *amount += order.amount;
    }
    totals
}

/// The totals and the cursor: both or neither, and only by the replica that leads.
async fn book(
    tenure: &Tenure,
    db: &Db,
    totals: BTreeMap<&str, (i64, i64)>,
    cursor: i64,
) -> Result<(), TransactionError> {
    const ADD: &str = "INSERT INTO totals (customer, orders, amount) VALUES ($1, $2, $3) ON CONFLICT (customer) \
                       DO UPDATE SET orders = totals.orders + excluded.orders, amount = totals.amount + excluded.amount";
    const MOVE: &str = "INSERT INTO scans (name, last_id) VALUES ('order_totals', $1) ON CONFLICT (name) \
                        DO UPDATE SET last_id = excluded.last_id";

    on!(db, pool => tenure.transaction(pool, async |tx| {
        for (customer, (orders, amount)) in totals {
            sqlx::query(ADD).bind(customer).bind(orders).bind(amount).execute(&mut **tx).await?;
        }
        sqlx::query(MOVE).bind(cursor).execute(&mut **tx).await?;
        Ok(())
    }).await)
}

/// Adds up the orders of each customer
#[derive(Parser)]
struct Flags {
    /// Where the orders are
    #[arg(long, env, default_value = "sqlite:scan.db")]
    database_url: String,
    /// Milliseconds between two batches
    #[arg(long, env, default_value = "100", value_parser = Pause::parse)]
    pause: Pause,
    /// Seconds that a lease lasts; the other timings keep their proportions to it
    #[arg(long = "lease", env = "LEASE", default_value = "15", value_parser = shared::timings)]
    timings: Timings,
}

#[derive(Clone)]
struct Pause(Duration);

impl Pause {
    fn parse(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Duration::from_millis).map(Self)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    shared::log();
    let db = Db::connect(&flags.database_url).await?;
    db.create(TABLES).await?;

    leader::Elector::builder()
        .database(&db)
        .timings(flags.timings)
        .state(db)
        .state(flags.pause)
        .run()
        .await?;
    Ok(())
}
