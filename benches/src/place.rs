//! The database that is measured: a throw-away one, or one that was given.

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use leader_tests::harness::{Kind, Server, Sql};
use serde::{Deserialize, Serialize};
use sqlx::{MySql, Postgres, Sqlite};
use tempfile::TempDir;

/// Which database to measure.
#[derive(Args, Clone, Debug, Default)]
pub struct Choice {
    /// Measures a throw-away database of this kind
    #[arg(long, global = true, value_enum, default_value_t)]
    pub database: Database,
    /// Measures this database; what is left in it are the tables of `leader`
    #[arg(long, global = true, value_name = "URL", conflicts_with = "database")]
    pub database_url: Option<String>,
}

/// The databases that carry a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Database {
    /// PostgreSQL
    #[default]
    Postgres,
    /// MariaDB, or MySQL if it was given
    Mysql,
    /// A SQLite file
    Sqlite,
}

impl Database {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Mysql, Self::Sqlite];

    /// What the harness calls it.
    pub fn kind(self) -> Kind {
        match self {
            Self::Postgres => Kind::Postgres,
            Self::Mysql => Kind::MySql,
            Self::Sqlite => Kind::Sqlite,
        }
    }

    /// Its name in options, features and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    fn of_url(url: &str) -> anyhow::Result<Self> {
        match url.split(':').next() {
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            Some("mysql" | "mariadb") => Ok(Self::Mysql),
            Some("sqlite") => Ok(Self::Sqlite),
            _ => bail!("`{url}` is the URL of no database that carries a lease"),
        }
    }
}

/// Calls a function for the database of sqlx that is meant.
#[macro_export]
macro_rules! on_database {
    ($database:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $database {
            $crate::place::Database::Postgres => $function::<sqlx::Postgres>($($argument),*).await,
            $crate::place::Database::Mysql => $function::<sqlx::MySql>($($argument),*).await,
            $crate::place::Database::Sqlite => $function::<sqlx::Sqlite>($($argument),*).await,
        }
    };
}

/// A database that waits to be measured. A throw-away one is gone when this is dropped.
#[derive(Debug)]
pub struct Place {
    /// Which one.
    pub database: Database,
    /// Where.
    pub url: String,
    /// Version and settings, checked to be durable.
    pub settings: String,
    _server: Option<Server>,
    _directory: Option<TempDir>,
}

impl Place {
    /// Starts or opens what was chosen.
    ///
    /// # Errors
    ///
    /// When it does not answer, or forgets what it acknowledges.
    pub async fn open(choice: &Choice) -> anyhow::Result<Self> {
        let (database, url, server, directory) = if let Some(url) = &choice.database_url {
            (Database::of_url(url)?, url.clone(), None, None)
        } else if choice.database == Database::Sqlite {
            let directory = tempfile::Builder::new().prefix("leader-bench-").tempdir()?;
            let url = format!("sqlite://{}?mode=rwc", directory.path().join("bench.db").display());
            (choice.database, url, None, Some(directory))
        } else {
            let server = Server::own(choice.database.kind()).await;
            let name = server.create_database().await;
            if choice.database == Database::Postgres {
                // For tests it logs each statement, which would be measured too.
                server.administer("ALTER ROLE leader SET log_statement = 'none'").await?;
            }
            (choice.database, server.url(&name), Some(server), None)
        };
        let settings = match database {
            Database::Postgres => settings::<Postgres>(&url, POSTGRES).await,
            Database::Mysql => settings::<MySql>(&url, MYSQL).await,
            Database::Sqlite => settings::<Sqlite>(&url, SQLITE).await,
        };
        let settings = settings.with_context(|| format!("cannot measure {}", database.kind()))?;
        Ok(Self { database, url, settings, _server: server, _directory: directory })
    }

    /// A namespace that nobody has campaigned in.
    pub fn namespace(&self, figure: &str) -> String {
        format!("bench-{figure}-{:08x}", fastrand::u32(..))
    }
}

/// What to ask for version and settings, and whether the answers are acknowledged before they are on the disk.
type Questions = (&'static str, &'static str);

const POSTGRES: Questions = (
    "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1) || ', fsync = ' || current_setting('fsync') \
     || ', synchronous_commit = ' || current_setting('synchronous_commit')",
    "SELECT count(*) FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit') AND setting = 'off'",
);
const MYSQL: Questions = (
    "SELECT concat(version(), ', innodb_flush_log_at_trx_commit = ', @@innodb_flush_log_at_trx_commit)",
    "SELECT @@innodb_flush_log_at_trx_commit <> 1",
);
/// The settings are those of each connection: the keeper's own, and the default of sqlx for others.
const SQLITE: Questions = ("SELECT 'SQLite ' || sqlite_version() || ', WAL, synchronous = FULL'", "SELECT 0");

async fn settings<DB: Sql>(url: &str, (describe, forgets): Questions) -> anyhow::Result<String> {
    let pool = DB::pool_to(url, 1);
    let mut connection = pool.acquire().await?;
    let settings = DB::text(&mut connection, describe).await?;
    let forgets = DB::number(&mut connection, forgets).await?;
    ensure!(forgets == 0, "it acknowledges what is not on the disk: {settings}");
    Ok(settings)
}
