//! A database by URL: SQLite or PostgreSQL, so that the programs can be tried on both. One of your own has a pool, and
//! calls it.

use leader::Database;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

/// A pool of either.
#[derive(Clone, Debug)]
pub enum Db {
    /// Of a SQLite file.
    Sqlite(SqlitePool),
    /// Of a PostgreSQL server.
    Postgres(PgPool),
}

/// `on!(db, pool => …)`: the same for either pool.
#[macro_export]
macro_rules! on {
    ($db:expr, $pool:ident => $do:expr) => {
        match $db {
            $crate::Db::Sqlite($pool) => $do,
            $crate::Db::Postgres($pool) => $do,
        }
    };
}

impl Db {
    /// Connects, and makes a file that is missing.
    pub async fn connect(url: &str) -> anyhow::Result<Self> {
        if url.starts_with("postgres") {
            return Ok(Self::Postgres(PgPool::connect(url).await?));
        }
        let file: SqliteConnectOptions = url.parse()?;
        let file = file.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
        Ok(Self::Sqlite(SqlitePool::connect_with(file).await?))
    }

    /// Creates what is missing; `{counts}` is a key that counts. A program of your own has migrations.
    pub async fn create(&self, tables: &str) -> anyhow::Result<()> {
        // One replica after the other: `IF NOT EXISTS` fails on PostgreSQL when two look at once.
        let (first, counts) = match self {
            Self::Sqlite(_) => ("BEGIN IMMEDIATE", "INTEGER PRIMARY KEY"),
            Self::Postgres(_) => ("BEGIN; SELECT pg_advisory_xact_lock(1)", "BIGSERIAL PRIMARY KEY"),
        };
        // Each statement alone: `CREATE INDEX IF NOT EXISTS` locks its table in any case, and two such locks deadlock with a
        // replica that writes to both tables.
        for statement in tables.replace("{counts}", counts).split(';') {
            let statement = sqlx::raw_sql(AssertSqlSafe(statement));
            on!(self, pool => {
                let mut tx = pool.begin_with(first).await?;
                statement.execute(&mut *tx).await?;
                tx.commit().await?;
            });
        }
        Ok(())
    }
}

impl From<&Db> for Database {
    fn from(db: &Db) -> Self {
        on!(db, pool => pool.into())
    }
}
