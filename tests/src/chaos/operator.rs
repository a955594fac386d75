//! What an operator does to the tables.

use tokio::time::{Instant, sleep_until};

use super::faults::Site;
use super::post::instance;
use super::schedule::Fault;
use crate::harness::{Kind, now_ms};

const TABLES: [&str; 2] = ["leader_names", "leader_sessions"];

/// Whether that changed anything.
pub(super) async fn apply(site: &Site, fault: &Fault) -> bool {
    match fault {
        Fault::DeleteSessions { replica } => {
            let instance = instance(*replica);
            delete(site, &format!("leader_sessions WHERE instance = '{instance}'")).await
        }
        Fault::DeleteName { name } => delete(site, &format!("leader_names WHERE name = '{name}'")).await,
        Fault::EmptyTables => {
            let mut any = false;
            for table in TABLES {
                any |= delete(site, table).await;
            }
            any
        }
        Fault::DropTables { recreate } => {
            let kind = site.place().1.database.kind;
            site.insist(&together(kind, &drop_tables(kind, *recreate))).await;
            true
        }
        _ => unreachable!("{fault:?} is not an operator's"),
    }
}

/// Whether there was a row.
async fn delete(site: &Site, rows: &str) -> bool {
    site.insist(&format!("DELETE FROM {rows} RETURNING 1")).await > 0
}

/// Takes a dump, and restores it later. Says when that began.
pub(super) async fn restore(site: &Site, until: Instant) -> i64 {
    let each = |statement: &str| TABLES.map(|table| statement.replace("{}", table)).join("; ");
    let kind = site.place().1.database.kind;
    let dump = each("DROP TABLE IF EXISTS dump_{}; CREATE TABLE dump_{} AS SELECT * FROM {}");
    site.insist(&together(kind, &dump)).await;
    sleep_until(until).await;
    let from = now_ms();
    // A dump that a failover has lost is none.
    let made = each("CREATE TABLE IF NOT EXISTS dump_{} AS SELECT * FROM {}");
    let restored = each("DELETE FROM {}; INSERT INTO {} SELECT * FROM dump_{}");
    site.insist(&together(kind, &format!("{made}; {restored}"))).await;
    from
}

fn drop_tables(kind: Kind, recreate: bool) -> String {
    let dropped = TABLES.map(|table| format!("DROP TABLE IF EXISTS {table}")).join("; ");
    let made = match kind {
        _ if !recreate => "",
        Kind::Postgres => leader::tables::POSTGRES,
        Kind::MySql => leader::tables::MYSQL,
        Kind::Sqlite => leader::tables::SQLITE,
    };
    format!("{dropped}; {made}")
}

/// In one transaction, except on MariaDB, where each change of a table commits.
fn together(kind: Kind, statements: &str) -> String {
    let begin = if kind == Kind::Sqlite { "BEGIN IMMEDIATE" } else { "BEGIN" };
    let statements = statements.trim_end().trim_end_matches(';');
    format!("{begin}; {statements}; COMMIT")
}
