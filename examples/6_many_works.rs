//! Works of several crates, and one for each of 200 shops.
//!
//! The library `billing` numbers invoices, the library `mail` sends what shops write. Both name `leader` and the states that
//! they need. The application links them, has the states, registers one more work for each shop, which ships that shop's
//! orders, and says what a replica may lead.
//!
//! Guaranteed:
//! - Each name is led by at most one replica, and by the next when that is gone, whatever crate its work comes from.
//! - The orders of a shop are shipped one after the other, in the order of their ids, each once. (Whoever places them sees to
//!   it that they are committed in that order, by a lock on what stands for the shop.)
//! - A replica does not start if a work is missing that is expected, if one is there that is not, or if a state is missing
//!   for one that it may lead. It leads nothing but what its role and its share allow.
//! - The leases of 202 names cost the database as many statements as the lease of one.
//!
//! Not guaranteed:
//! - That names are spread over replicas. Often one leads them all, and the others stand by. A deployment that wants them
//!   spread divides them: here by `--share`. Run two replicas of each share, as nobody else takes its names over.
//! - That a shop is led which was opened after the start: names are registered before it, so restart the replicas.
//! - That works cost nothing: 200 shops look for orders 200 times a second, whoever leads them.
//!
//! ```console
//! $ cargo run --features programs --bin many_works
//! $ sqlite3 shops.db "INSERT INTO orders (shop, article) VALUES (7, 'a lamp'), (8, 'a table'), (7, 'a chair')"
//! $ sqlite3 shops.db "SELECT * FROM invoices"; ls spool
//! ```
//!
//! Or beside each other, divided:
//!
//! ```console
//! $ cargo run --features programs --bin many_works -- --role web
//! $ cargo run --features programs --bin many_works -- --role worker --share 1/2
//! $ cargo run --features programs --bin many_works -- --role worker --share 2/2
//! ```

mod shared;

use std::io;
use std::num::ParseIntError;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

// Nothing else here names it. Without this line the linker drops it, and its work with it: the start says so.
use billing as _;
use clap::{Parser, ValueEnum};
use db::{Db, on};
use leader::{Builder, Elector, Tenure, Timings, TransactionError};
use mail::Spool;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (
        id {counts}, shop BIGINT NOT NULL, article TEXT NOT NULL, shipped BOOLEAN NOT NULL DEFAULT FALSE
    );
    CREATE INDEX IF NOT EXISTS orders_waiting ON orders (shop, id) WHERE NOT shipped;
    CREATE TABLE IF NOT EXISTS shipments (
        id {counts}, order_id BIGINT NOT NULL, shop BIGINT NOT NULL, term BIGINT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS invoices (shipment_id BIGINT PRIMARY KEY, number BIGINT NOT NULL UNIQUE);
    CREATE TABLE IF NOT EXISTS mails (
        id {counts}, text TEXT NOT NULL, spooled BOOLEAN NOT NULL DEFAULT FALSE
    );
    CREATE INDEX IF NOT EXISTS mails_waiting ON mails (id) WHERE NOT spooled";

/// The work of one shop: an ordinary function. The builder registers it, once for each of them.
async fn run_shop(tenure: Tenure, db: Db, shop: i64, packing: Duration) -> anyhow::Result<()> {
    loop {
        let Some((order, article)) = tenure.until_ended(next_order(&db, shop)).await?? else {
            tenure.sleep(Duration::from_secs(1)).await?;
            continue;
        };
        tenure.sleep(packing).await?;
        ship(&tenure, &db, shop, order, &article).await?;
    }
}

async fn next_order(db: &Db, shop: i64) -> sqlx::Result<Option<(i64, String)>> {
    const NEXT: &str = "SELECT id, article FROM orders WHERE shop = $1 AND NOT shipped ORDER BY id LIMIT 1";

    on!(db, pool => sqlx::query_as(NEXT).bind(shop).fetch_optional(pool).await)
}

/// Fenced: who was frozen while it packed, and has a successor, ships nothing.
async fn ship(
    tenure: &Tenure,
    db: &Db,
    shop: i64,
    order: i64,
    article: &str,
) -> Result<(), TransactionError> {
    const SHIP: &str = "INSERT INTO shipments (order_id, shop, term) VALUES ($1, $2, $3)";
    const TELL: &str = "INSERT INTO mails (text) VALUES ($1)";
    const DONE: &str = "UPDATE orders SET shipped = TRUE WHERE id = $1";

    let text = format!("Order {order}, {article}, has left shop {shop}.\n");
    on!(db, pool => tenure.transaction(pool, async |tx| {
        let term = tenure.term().get();
        sqlx::query(SHIP).bind(order).bind(shop).bind(term).execute(&mut **tx).await?;
        sqlx::query(TELL).bind(text).execute(&mut **tx).await?;
        sqlx::query(DONE).bind(order).execute(&mut **tx).await?;
        Ok(())
    }).await)
}

/// Runs shops
#[derive(Parser)]
struct Flags {
    /// Where the orders are
    #[arg(long, env, default_value = "sqlite:shops.db")]
    database_url: String,
    /// Where mails are put
    #[arg(long, env, default_value = "spool")]
    spool: PathBuf,
    /// How many shops there are
    #[arg(long, env, default_value = "200")]
    shops: i64,
    /// Milliseconds that it takes to pack an order
    #[arg(long, env, default_value = "100", value_parser = milliseconds)]
    packing: Duration,
    /// What this replica may lead
    #[arg(long, env, value_enum, default_value = "all")]
    role: Role,
    /// Which of the shops it may lead, if not all: 1/3, 2/3 and 3/3 together are all
    #[arg(long, env, value_parser = Share::parse)]
    share: Option<Share>,
    /// A work that must be registered besides, since whoever deploys this counts on it
    #[arg(long)]
    expect: Vec<String>,
    /// Seconds that a lease lasts; the other timings keep their proportions to it
    #[arg(long = "lease", env = "LEASE", default_value = "15", value_parser = shared::timings)]
    timings: Timings,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    /// Everything: shops, invoices and mail
    All,
    /// What is light, beside serving requests: invoices and mail
    Web,
    /// Shops, and nothing else
    Worker,
}

#[derive(Clone, Copy)]
struct Share {
    part: i64,
    of: i64,
}

impl Share {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((part, of)) if (1..=of).contains(&part) => Ok(Self { part, of }),
            _ => Err("write it as 1/3"),
        }
    }

    /// By the shop alone, so that a shop stays where it is when others open.
    fn has(self, shop: i64) -> bool {
        shop % self.of == self.part - 1
    }
}

fn milliseconds(text: &str) -> Result<Duration, ParseIntError> {
    text.parse().map(Duration::from_millis)
}

/// Of the work of this shop.
fn name(shop: i64) -> String {
    format!("shop/{shop}")
}

impl Flags {
    fn shops(&self) -> Range<i64> {
        0..self.shops
    }

    /// A work without the attribute takes no states: its closure has what it needs.
    fn register(&self, builder: Builder, db: &Db) -> Builder {
        let packing = self.packing;
        self.shops().fold(builder, |builder, shop| {
            let db = db.clone();
            builder.work(name(shop), move |tenure| run_shop(tenure, db.clone(), shop, packing))
        })
    }

    fn restrict(&self, builder: Builder) -> anyhow::Result<Builder> {
        let (own, others): (Vec<_>, Vec<_>) =
            self.shops().partition(|shop| self.share.is_none_or(|share| share.has(*shop)));
        Ok(match (self.role, self.share) {
            (Role::All, _) => builder.state(self.spool()?).except(others.into_iter().map(name)),
            (Role::Web, None) => builder.state(self.spool()?).except(own.into_iter().map(name)),
            (Role::Web, Some(_)) => anyhow::bail!("`--share` divides shops, and `--role web` leads none"),
            (Role::Worker, _) => builder.only(own.into_iter().map(name)),
        })
    }

    /// `mail` alone takes it, so a worker needs none.
    fn spool(&self) -> io::Result<Spool> {
        std::fs::create_dir_all(&self.spool)?;
        Ok(Spool(self.spool.clone()))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    shared::log();
    let db = Db::connect(&flags.database_url).await?;
    db.create(TABLES).await?;

    let builder = Elector::builder()
        .database(&db)
        .timings(flags.timings)
        .state(db.clone())
        .expect(["invoices", "mail"])
        .expect(flags.shops().map(name))
        .expect(flags.expect.clone());
    let builder = flags.register(builder, &db);
    flags.restrict(builder)?.run().await?;
    Ok(())
}
