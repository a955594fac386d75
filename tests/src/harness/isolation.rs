//! The isolation level of transactions that ask for none.

use std::fmt;
use std::fs::File;
use std::io::Write as _;

use clap::ValueEnum;
use serde::Serialize;
use sqlx::{Connection, MySql, Postgres};

use super::database::Kind;
use super::install;
use super::servers::Server;
use super::sql::Sql;

/// An isolation level of the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
pub enum Isolation {
    /// PostgreSQL takes it for the next.
    ReadUncommitted,
    /// PostgreSQL's default.
    ReadCommitted,
    /// MariaDB's.
    RepeatableRead,
    /// What the standard would have as the default.
    Serializable,
}

impl Isolation {
    /// Each of them.
    pub const ALL: [Self; 4] =
        [Self::ReadUncommitted, Self::ReadCommitted, Self::RepeatableRead, Self::Serializable];

    /// What a connection is given that was just dialled, in whatever way it is written.
    ///
    /// # Errors
    ///
    /// What the database or the connection to it says.
    ///
    /// # Panics
    ///
    /// For SQLite, which has none to choose.
    pub async fn shown(kind: Kind, url: &str) -> sqlx::Result<String> {
        let shown = match kind {
            Kind::Postgres => text::<Postgres>(url, "SHOW default_transaction_isolation").await?,
            Kind::MySql => text::<MySql>(url, "SELECT @@tx_isolation").await?,
            Kind::Sqlite => panic!("SQLite has none to choose"),
        };
        Ok(shown.replace('-', " ").to_lowercase())
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadUncommitted => "read uncommitted",
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        })
    }
}

impl Server {
    /// From now on this is the default of a database, restarts and failovers included. MariaDB knows defaults of the whole
    /// server only.
    ///
    /// # Panics
    ///
    /// When the server refuses, or is not the test's own.
    pub async fn set_default_isolation(&self, database: &str, level: Isolation) {
        let directory = self.directory().expect("a server of the test's own");
        let statement = match self.kind() {
            Kind::Postgres => {
                format!("ALTER DATABASE {database} SET default_transaction_isolation = '{level}'")
            }
            _ => format!("SET GLOBAL TRANSACTION ISOLATION LEVEL {level}"),
        };
        self.administer(&statement).await.unwrap_or_else(|error| panic!("`{statement}`: {error:?}"));
        if self.kind() == Kind::MySql {
            let file = File::options().append(true).open(install::init_file(directory));
            let added = file.and_then(|mut file| writeln!(file, "{statement};"));
            added.expect("what the server does at its start can be written");
        }
    }
}

async fn text<DB: Sql>(url: &str, query: &str) -> sqlx::Result<String> {
    let mut connection = DB::Connection::connect(url).await?;
    let answer = DB::text(&mut connection, query).await?;
    connection.close().await?;
    Ok(answer)
}
