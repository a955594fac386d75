//! One empty database per test.

mod looks;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Executor, MySqlPool, PgPool, SqlitePool};
use tempfile::TempDir;

use super::pgbouncer::PgBouncer;
use super::servers::Server;
use super::slots::{self, Slot};

pub use looks::{LedgerRow, NameRow, SessionRow};

/// The databases that carry a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Kind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB, or the MySQL of `LEADER_TEST_MYSQL_URL`.
    MySql,
    /// A SQLite file.
    Sqlite,
}

impl Kind {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::MySql, Self::Sqlite];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::MySql => "MariaDB",
            Self::Sqlite => "SQLite",
        })
    }
}

/// An empty database, and with it a slot of the machine until it is dropped.
#[derive(Debug)]
pub struct TestDatabase {
    /// What replicas are given.
    pub url: String,
    /// Where it is.
    pub kind: Kind,
    pool: Pool,
    place: Place,
    _slot: Option<Arc<Slot>>,
}

#[derive(Debug)]
enum Pool {
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

#[derive(Debug)]
enum Place {
    Shared(&'static Server, String),
    // The server goes, and the database with it.
    Own,
    // It goes with this.
    File { _directory: TempDir },
}

impl TestDatabase {
    /// An empty database on the shared server, or a new file.
    ///
    /// Waits until the machine has time for one more test. A test that needs a second database asks for a
    /// [`sibling`](Self::sibling) of the first.
    ///
    /// # Panics
    ///
    /// When the server does not start or refuses.
    pub async fn create(kind: Kind) -> Self {
        let slot = Arc::new(slots::one().await);
        Self::create_in(kind, Some(slot)).await
    }

    /// The same for a test that waits most of the time: several of these run side by side.
    ///
    /// # Panics
    ///
    /// As [`create`](Self::create).
    pub async fn create_to_wait(kind: Kind) -> Self {
        let slot = slots::part().await;
        Self::create_in(kind, Some(Arc::new(slot))).await
    }

    /// The same for a test that would disturb others: it has the machine to itself.
    ///
    /// # Panics
    ///
    /// As [`create`](Self::create).
    pub async fn create_alone(kind: Kind) -> Self {
        let slot = Arc::new(slots::all().await);
        Self::create_in(kind, Some(slot)).await
    }

    /// An empty database on a server of the test's own, which has the machine to itself.
    ///
    /// # Panics
    ///
    /// As [`create`](Self::create).
    pub async fn create_on_own_server(kind: Kind) -> (Self, Server) {
        let slot = Arc::new(slots::all().await);
        Self::create_on(Server::own(kind).await, slot).await
    }

    /// Empty databases for one test that has the machine to itself: each on a server of its own, or in a file.
    ///
    /// # Panics
    ///
    /// As [`create`](Self::create).
    pub async fn create_on_own_servers(kinds: &[Kind]) -> Vec<(Self, Option<Server>)> {
        let slot = Arc::new(slots::all().await);
        let mut databases = Vec::new();
        for kind in kinds {
            databases.push(if *kind == Kind::Sqlite {
                (Self::in_file(Some(Arc::clone(&slot))), None)
            } else {
                let server = Server::own(*kind).await;
                let (database, server) = Self::create_on(server, Arc::clone(&slot)).await;
                (database, Some(server))
            });
        }
        databases
    }

    /// The same as [`create_on_own_server`](Self::create_on_own_server) for a test that waits most of the time: several of
    /// these run side by side.
    ///
    /// # Panics
    ///
    /// As [`create`](Self::create).
    pub async fn create_to_wait_on_own_server(kind: Kind) -> (Self, Server) {
        Self::create_to_wait_on(Server::own(kind)).await
    }

    /// The same on a server that is still to be started.
    ///
    /// # Panics
    ///
    /// As [`create`](Self::create).
    pub async fn create_to_wait_on(server: impl Future<Output = Server>) -> (Self, Server) {
        // A whole one until the server has started.
        let mut slot = slots::one().await;
        let server = server.await;
        slots::shrink(&mut slot);
        Self::create_on(server, Arc::new(slot)).await
    }

    /// The database of a standby that replicates this one.
    #[must_use]
    pub fn on_standby(&self, standby: &Server) -> Self {
        Self::on(standby, self.name(), Place::Own, None)
    }

    /// The same by way of a pooler before its server.
    #[must_use]
    pub fn by_pooler(&self, server: &Server, pooler: &PgBouncer) -> Self {
        let mut database = Self::on(server, self.name(), Place::Own, None);
        database.url = pooler.url(self);
        database
    }

    /// Its name on its server.
    pub(crate) fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or_default()
    }

    /// One more empty database of the same kind for the same test.
    ///
    /// # Panics
    ///
    /// As [`create`](Self::create).
    pub async fn sibling(&self) -> Self {
        self.sibling_on(self.kind).await
    }

    /// One more empty database, of any kind, for the same test.
    ///
    /// # Panics
    ///
    /// As [`create`](Self::create).
    pub async fn sibling_on(&self, kind: Kind) -> Self {
        Self::create_in(kind, None).await
    }

    async fn create_on(server: Server, slot: Arc<Slot>) -> (Self, Server) {
        let name = server.create_database().await;
        (Self::on(&server, &name, Place::Own, Some(slot)), server)
    }

    async fn create_in(kind: Kind, slot: Option<Arc<Slot>>) -> Self {
        if kind == Kind::Sqlite {
            return Self::in_file(slot);
        }
        let server = Server::shared(kind).await;
        let name = server.create_database().await;
        Self::on(server, &name, Place::Shared(server, name.clone()), slot)
    }

    fn on(server: &Server, name: &str, place: Place, slot: Option<Arc<Slot>>) -> Self {
        let url = server.admin_url(name);
        let pool = if server.kind() == Kind::Postgres {
            PgPoolOptions::new()
                .max_connections(2)
                .acquire_timeout(PATIENCE)
                .connect_lazy(&url)
                .map(Pool::Postgres)
        } else {
            MySqlPoolOptions::new()
                .max_connections(2)
                .acquire_timeout(PATIENCE)
                // What is not committed is not there, whatever the server's default says.
                .after_connect(|connection, _| {
                    Box::pin(async {
                        connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
                        Ok(())
                    })
                })
                .connect_lazy(&url)
                .map(Pool::MySql)
        };
        Self {
            url: server.url(name),
            kind: server.kind(),
            pool: pool.expect("a good URL"),
            place,
            _slot: slot,
        }
    }

    fn in_file(slot: Option<Arc<Slot>>) -> Self {
        let directory =
            tempfile::Builder::new().prefix("leader-sqlite-").tempdir().expect("a directory to write in");
        let file = directory.path().join("test.db");
        let options =
            SqliteConnectOptions::new().filename(&file).create_if_missing(true).busy_timeout(PATIENCE);
        Self {
            url: format!("sqlite://{}?mode=rwc", file.display()),
            kind: Kind::Sqlite,
            pool: Pool::Sqlite(SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options)),
            place: Place::File { _directory: directory },
            _slot: slot,
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Place::Shared(server, name) = &self.place {
            server.drop_database(name);
        }
    }
}

/// For a busy machine: nothing that a test measures.
const PATIENCE: Duration = Duration::from_secs(20);
