//! A database by URL: SQLite or PostgreSQL, so that the programs can be tried on both. One of your own has a pool, and
//! calls it.

use leader::Database;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

#[derive(Clone)]
pub(crate) enum Db {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// `on!(db, pool => …)`: the same for either pool.
macro_rules! on {
    ($db:expr, $pool:ident => $do:expr) => {
        match $db {
            Db::Sqlite($pool) => $do,
            Db::Postgres($pool) => $do,
        }
    };
}
pub(crate) use on;

impl Db {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        if url.starts_with("postgres") {
            return Ok(Self::Postgres(PgPool::connect(url).await?));
        }
        let file: SqliteConnectOptions = url.parse()?;
        let file = file.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
        Ok(Self::Sqlite(SqlitePool::connect_with(file).await?))
    }

    /// Creates what is missing; `{counts}` is a key that counts. A program of your own has migrations.
    pub(crate) async fn create(&self, tables: &str) -> anyhow::Result<()> {
        // One replica after the other: `IF NOT EXISTS` fails on PostgreSQL when two look at once.
        let (first, counts) = match self {
            Self::Sqlite(_) => ("BEGIN IMMEDIATE", "INTEGER PRIMARY KEY"),
            Self::Postgres(_) => ("BEGIN; SELECT pg_advisory_xact_lock(1)", "BIGSERIAL PRIMARY KEY"),
        };
        let tables = tables.replace("{counts}", counts);
        let script = AssertSqlSafe(format!("{first}; {tables}; COMMIT"));
        on!(self, pool => sqlx::raw_sql(script).execute(pool).await.map(drop))?;
        Ok(())
    }
}

impl From<&Db> for Database {
    fn from(db: &Db) -> Self {
        on!(db, pool => pool.into())
    }
}
