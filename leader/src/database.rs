//! Which database carries the leases.

use std::fmt;

use crate::error::Error;
use crate::store::{self, AnyStore, Scope};

/// A database that an elector can use: a URL, or a pool or connect options of sqlx.
///
/// A URL is `postgres://user:password@host/database`, `mysql://user:password@host/database` or `sqlite:app.db`. The file
/// must be there, or be made: `sqlite:app.db?mode=rwc`.
///
/// A pool only lends its connect options: the keeper's connection is its own, so that an exhausted pool cannot cost a
/// lease.
#[derive(Clone)]
pub struct Database(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    Url(String),
    #[cfg(feature = "postgres")]
    Postgres(Box<sqlx::postgres::PgConnectOptions>),
    #[cfg(feature = "mysql")]
    MySql(Box<sqlx::mysql::MySqlConnectOptions>),
    #[cfg(feature = "sqlite")]
    Sqlite(Box<sqlx::sqlite::SqliteConnectOptions>),
    #[cfg(any(test, feature = "test-util"))]
    Memory(store::memory::Memory),
}

impl Database {
    /// Reads the URL, if it is one. `works` are those that need a lease, for the message.
    pub(crate) fn resolve(self, works: &str) -> Result<Self, Error> {
        let Kind::Url(url) = self.0 else {
            return Ok(self);
        };
        let Some((scheme, _)) = url.split_once(':') else {
            return Err(Error::Config(
                "the database URL has no scheme; write `postgres://…`, `mysql://…` or `sqlite://…`"
                    .to_owned(),
            ));
        };
        match scheme {
            "postgres" | "postgresql" => postgres(&url),
            "mysql" | "mariadb" => mysql(&url),
            "sqlite" => sqlite(&url),
            other => Err(Error::Config(format!(
                "{works} a lease, and a `{other}` database cannot carry one; give the elector a PostgreSQL, MySQL, MariaDB or SQLite database"
            ))),
        }
    }

    /// The database, for people: without its password.
    pub(crate) fn describe(&self) -> String {
        match &self.0 {
            Kind::Url(_) => "the database".to_owned(),
            #[cfg(feature = "postgres")]
            Kind::Postgres(options) => format!(
                "PostgreSQL at {}:{}/{}",
                options
                    .get_socket()
                    .map_or_else(|| options.get_host().to_owned(), |path| path.display().to_string()),
                options.get_port(),
                options.get_database().unwrap_or_else(|| options.get_username()),
            ),
            #[cfg(feature = "mysql")]
            Kind::MySql(options) => format!(
                "MySQL or MariaDB at {}:{}/{}",
                options
                    .get_socket()
                    .map_or_else(|| options.get_host().to_owned(), |path| path.display().to_string()),
                options.get_port(),
                options.get_database().unwrap_or_default(),
            ),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(options) => {
                format!("the SQLite file {}", options.get_filename().display())
            }
            #[cfg(any(test, feature = "test-util"))]
            Kind::Memory(_) => "the database in memory".to_owned(),
        }
    }

    pub(crate) fn open(self, scope: Scope) -> Result<AnyStore, Error> {
        match self.0 {
            Kind::Url(url) => Err(Error::Config(format!("the database URL was not read: {url}"))),
            #[cfg(feature = "postgres")]
            Kind::Postgres(options) => {
                Ok(AnyStore::Postgres(store::postgres::Postgres::new(*options, scope)))
            }
            #[cfg(feature = "mysql")]
            Kind::MySql(options) => Ok(AnyStore::MySql(store::mysql::MySql::new(*options, scope))),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(options) => {
                Ok(AnyStore::Sqlite(Box::new(store::sqlite::Sqlite::new(*options, scope))))
            }
            #[cfg(any(test, feature = "test-util"))]
            Kind::Memory(memory) => Ok(AnyStore::Memory(store::memory::MemoryStore::new(memory, scope))),
        }
    }
}

macro_rules! read {
    ($name:ident, $feature:literal, $options:ty, $kind:ident) => {
        fn $name(url: &str) -> Result<Database, Error> {
            #[cfg(feature = $feature)]
            {
                let options: $options = url.parse().map_err(|error: sqlx::Error| Error::Database {
                    doing: "reading the database URL".to_owned(),
                    source: error.into(),
                })?;
                Ok(Database(Kind::$kind(Box::new(options))))
            }
            #[cfg(not(feature = $feature))]
            {
                let _ = url;
                Err(Error::Config(format!(
                    "the database URL needs the feature `{}` of the crate `leader`; turn it on in Cargo.toml",
                    $feature
                )))
            }
        }
    };
}

read!(postgres, "postgres", sqlx::postgres::PgConnectOptions, Postgres);
read!(mysql, "mysql", sqlx::mysql::MySqlConnectOptions, MySql);
read!(sqlite, "sqlite", sqlx::sqlite::SqliteConnectOptions, Sqlite);

impl From<&str> for Database {
    fn from(url: &str) -> Self {
        Self(Kind::Url(url.to_owned()))
    }
}

impl From<String> for Database {
    fn from(url: String) -> Self {
        Self(Kind::Url(url))
    }
}

impl From<&String> for Database {
    fn from(url: &String) -> Self {
        Self(Kind::Url(url.clone()))
    }
}

macro_rules! from_sqlx {
    ($feature:literal, $database:ty, $options:ty, $kind:ident) => {
        #[cfg(feature = $feature)]
        impl From<$options> for Database {
            fn from(options: $options) -> Self {
                Self(Kind::$kind(Box::new(options)))
            }
        }

        #[cfg(feature = $feature)]
        impl From<&sqlx::Pool<$database>> for Database {
            fn from(pool: &sqlx::Pool<$database>) -> Self {
                Self(Kind::$kind(Box::new((*pool.connect_options()).clone())))
            }
        }

        #[cfg(feature = $feature)]
        impl From<sqlx::Pool<$database>> for Database {
            fn from(pool: sqlx::Pool<$database>) -> Self {
                Self::from(&pool)
            }
        }
    };
}

from_sqlx!("postgres", sqlx::Postgres, sqlx::postgres::PgConnectOptions, Postgres);
from_sqlx!("mysql", sqlx::MySql, sqlx::mysql::MySqlConnectOptions, MySql);
from_sqlx!("sqlite", sqlx::Sqlite, sqlx::sqlite::SqliteConnectOptions, Sqlite);

#[cfg(any(test, feature = "test-util"))]
impl From<store::memory::Memory> for Database {
    fn from(memory: store::memory::Memory) -> Self {
        Self(Kind::Memory(memory))
    }
}

#[cfg(any(test, feature = "test-util"))]
impl From<&store::memory::Memory> for Database {
    fn from(memory: &store::memory::Memory) -> Self {
        Self(Kind::Memory(memory.clone()))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.describe())
    }
}
