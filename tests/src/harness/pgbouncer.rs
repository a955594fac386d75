//! A pooler between the tests and PostgreSQL.

use sqlx::{Connection, PgConnection};

use super::database::{Kind, TestDatabase};
use super::eventually;
use super::install::{self, Installed};
use super::replica::PATIENCE;
use super::servers::Server;
use super::supervisor::Supervisor;

/// PgBouncer in transaction mode, gone when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    _supervisor: Supervisor,
}

impl PgBouncer {
    /// Starts one before the server that the tests share.
    ///
    /// # Panics
    ///
    /// When it does not start, with what to install if that is the reason.
    pub async fn before_the_shared_server() -> Self {
        let url = Server::shared(Kind::Postgres).await.url("postgres");
        let start = move || -> anyhow::Result<Self> {
            let (user, password, host, port) = parts(&url);
            let Installed { mut supervisor, command, port } = install::pgbouncer(host, port, user, password)?;
            supervisor.start(&command)?;
            Ok(Self { port, _supervisor: supervisor })
        };
        let started = tokio::task::spawn_blocking(start).await.expect("no panic in here");
        let started = started.unwrap_or_else(|error| panic!("PgBouncer does not start: {error:?}"));
        let url = format!("postgres://any@127.0.0.1:{}/postgres", started.port);
        eventually("PgBouncer to answer", PATIENCE, async || {
            PgConnection::connect(&url).await.ok().map(drop)
        })
        .await;
        started
    }

    /// The URL of a database of that server by this way.
    pub fn url(&self, database: &TestDatabase) -> String {
        format!("postgres://any@127.0.0.1:{}/{}", self.port, database.name())
    }
}

/// User, password, host and port of a URL.
fn parts(url: &str) -> (&str, &str, &str, u16) {
    let (_, rest) = url.split_once("://").expect("a URL");
    let (user, rest) = rest.split_once('@').expect("a URL with a user");
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let (address, _) = rest.split_once('/').expect("a URL with a database");
    let (host, port) = address.split_once(':').unwrap_or((address, "5432"));
    (user, password, host, port.parse().expect("a port"))
}
