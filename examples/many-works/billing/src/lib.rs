//! Numbers the invoices of all shops.
//!
//! Guaranteed: each shipment has one invoice, and the numbers have no gap. Whoever takes the next number must be alone.

use std::time::Duration;

use db::{Db, on};
use leader::{State, Tenure, TransactionError};

// No function of this crate is public: a work needs no caller.
#[leader::work("invoices")]
async fn invoices(tenure: Tenure, State(db): State<Db>) -> anyhow::Result<()> {
    loop {
        number(&tenure, &db).await?;
        tenure.sleep(Duration::from_secs(1)).await?;
    }
}

/// Gives the next numbers to the shipments that have none.
async fn number(tenure: &Tenure, db: &Db) -> Result<(), TransactionError> {
    const NUMBER: &str = "INSERT INTO invoices (number, shipment_id) \
        SELECT (SELECT coalesce(max(number), 0) FROM invoices) + row_number() OVER (ORDER BY s.id), s.id \
        FROM shipments s LEFT JOIN invoices i ON i.shipment_id = s.id WHERE i.number IS NULL";

    on!(db, pool => tenure.transaction(pool, async |tx| {
        sqlx::query(NUMBER).execute(&mut **tx).await?;
        Ok(())
    }).await)
}
