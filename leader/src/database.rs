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
/// lease. On servers they are read anew whenever the keeper dials, so that credentials that you rotate by
/// [`Pool::set_connect_options`](sqlx::Pool::set_connect_options) are the keeper's too. For that the elector keeps a handle of the
/// pool, which is then not closed by dropping your last one; [`close`](sqlx::Pool::close) closes it.
#[derive(Clone)]
pub struct Database(Given);

#[derive(Clone)]
enum Given {
    Url(String),
    Target(Target),
}

/// A database of a kind that can carry leases.
#[derive(Clone)]
pub(crate) enum Target {
    #[cfg(feature = "postgres")]
    Postgres(Address<sqlx::Postgres>),
    #[cfg(feature = "mysql")]
    MySql(Address<sqlx::MySql>),
    #[cfg(feature = "sqlite")]
    Sqlite(Address<sqlx::Sqlite>),
    #[cfg(any(test, feature = "test-util"))]
    Memory(store::memory::Memory),
}

/// Where to dial, and as whom.
pub(crate) enum Address<DB: sqlx::Database> {
    Options(Box<Options<DB>>),
    Pool(sqlx::Pool<DB>),
}

type Options<DB> = <<DB as sqlx::Database>::Connection as sqlx::Connection>::Options;

impl<DB: sqlx::Database> Address<DB> {
    /// As of now: those of a pool can change.
    pub(crate) fn options(&self) -> Options<DB> {
        match self {
            Self::Options(options) => (**options).clone(),
            Self::Pool(pool) => (*pool.connect_options()).clone(),
        }
    }
}

impl<DB: sqlx::Database> Clone for Address<DB> {
    fn clone(&self) -> Self {
        match self {
            Self::Options(options) => Self::Options(options.clone()),
            Self::Pool(pool) => Self::Pool(pool.clone()),
        }
    }
}

impl Database {
    /// Reads the URL, if it is one. `who_needs` says who needs a lease, for the message.
    pub(crate) fn resolve(self, who_needs: &str) -> Result<Target, Error> {
        let url = match self.0 {
            Given::Url(url) => url,
            Given::Target(target) => return Ok(target),
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
                "{who_needs} a lease, and a `{other}` database cannot carry one; give the elector a PostgreSQL, MySQL, MariaDB or SQLite database"
            ))),
        }
    }
}

impl Target {
    pub(crate) fn open(self, scope: Scope) -> AnyStore {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => AnyStore::Postgres(store::postgres::Postgres::new(address, scope)),
            #[cfg(feature = "mysql")]
            Self::MySql(address) => AnyStore::MySql(store::mysql::MySql::new(address, scope)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(address) => {
                AnyStore::Sqlite(Box::new(store::sqlite::Sqlite::new(&address.options(), scope)))
            }
            #[cfg(any(test, feature = "test-util"))]
            Self::Memory(memory) => AnyStore::Memory(store::memory::MemoryStore::new(memory, scope)),
        }
    }
}

/// For people: without its password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            #[cfg(feature = "postgres")]
            Self::Postgres(ref address) => {
                let options = address.options();
                let socket = options.get_socket().map(|path| path.display().to_string());
                let host = socket.as_deref().unwrap_or_else(|| options.get_host());
                let database = options.get_database().unwrap_or_else(|| options.get_username());
                write!(f, "PostgreSQL at {host}:{}/{database}", options.get_port())
            }
            #[cfg(feature = "mysql")]
            Self::MySql(ref address) => {
                let options = address.options();
                let socket = options.get_socket().map(|path| path.display().to_string());
                let host = socket.as_deref().unwrap_or_else(|| options.get_host());
                let database = options.get_database().unwrap_or_default();
                write!(f, "MySQL or MariaDB at {host}:{}/{database}", options.get_port())
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(ref address) => {
                write!(f, "the SQLite file {}", address.options().get_filename().display())
            }
            #[cfg(any(test, feature = "test-util"))]
            Self::Memory(_) => f.write_str("the database in memory"),
        }
    }
}

macro_rules! read {
    ($name:ident, $feature:literal, $options:ty, $kind:ident) => {
        fn $name(url: &str) -> Result<Target, Error> {
            #[cfg(feature = $feature)]
            {
                let options: $options = url.parse().map_err(|error: sqlx::Error| Error::Database {
                    doing: "reading the database URL".to_owned(),
                    source: error.into(),
                })?;
                Ok(Target::$kind(Address::Options(Box::new(options))))
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
        Self(Given::Url(url.to_owned()))
    }
}

impl From<String> for Database {
    fn from(url: String) -> Self {
        Self(Given::Url(url))
    }
}

impl From<&String> for Database {
    fn from(url: &String) -> Self {
        Self(Given::Url(url.clone()))
    }
}

macro_rules! from_sqlx {
    ($feature:literal, $database:ty, $options:ty, $kind:ident) => {
        #[cfg(feature = $feature)]
        impl From<$options> for Database {
            fn from(options: $options) -> Self {
                Self(Given::Target(Target::$kind(Address::Options(Box::new(options)))))
            }
        }

        #[cfg(feature = $feature)]
        impl From<sqlx::Pool<$database>> for Database {
            fn from(pool: sqlx::Pool<$database>) -> Self {
                Self(Given::Target(Target::$kind(Address::Pool(pool))))
            }
        }

        #[cfg(feature = $feature)]
        impl From<&sqlx::Pool<$database>> for Database {
            fn from(pool: &sqlx::Pool<$database>) -> Self {
                Self::from(pool.clone())
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
        Self(Given::Target(Target::Memory(memory)))
    }
}

#[cfg(any(test, feature = "test-util"))]
impl From<&store::memory::Memory> for Database {
    fn from(memory: &store::memory::Memory) -> Self {
        Self::from(memory.clone())
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // It may hold a password.
            Given::Url(_) => f.write_str("Database(..)"),
            Given::Target(target) => write!(f, "Database({target})"),
        }
    }
}
