//! A pooler between the tests and PostgreSQL.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, PgConnection, Postgres, Row};

use super::database::{Kind, TestDatabase};
use super::install::{self, Installed};
use super::replica::PATIENCE;
use super::servers::Server;
use super::sql::Sql;
use super::supervisor::Supervisor;

/// PgBouncer in transaction mode, gone when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    command: String,
    settings: PathBuf,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    supervisor: Supervisor,
    pid: Option<Pid>,
}

impl PgBouncer {
    /// Starts one before the server that the tests share.
    ///
    /// # Panics
    ///
    /// When it does not start, with what to install if that is the reason.
    pub async fn before_the_shared_server() -> Self {
        Self::before(Server::shared(Kind::Postgres).await).await
    }

    /// Starts one before this server.
    ///
    /// # Panics
    ///
    /// As [`before_the_shared_server`](Self::before_the_shared_server).
    pub async fn before(server: &Server) -> Self {
        let url = server.url("postgres");
        let install = move || -> anyhow::Result<Self> {
            let Installed { supervisor, command, port } =
                install::pgbouncer(|listens| settings(listens, &url))?;
            let settings = install::pgbouncer_settings(supervisor.directory());
            let running = Mutex::new(Running { supervisor, pid: None });
            Ok(Self { port, command, settings, running })
        };
        let installed = tokio::task::spawn_blocking(install).await.expect("no panic in here");
        let pooler = installed.unwrap_or_else(|error| panic!("PgBouncer does not start: {error:?}"));
        pooler.start().await;
        pooler.wait("postgres").await;
        pooler
    }

    /// The URL of a database of that server by this way.
    pub fn url(&self, database: &TestDatabase) -> String {
        self.url_of(database.name())
    }

    /// Starts it again, at the same address, and waits until it answers.
    ///
    /// # Panics
    ///
    /// When it runs already, or does not start.
    pub async fn start(&self) {
        {
            let mut running = self.running();
            assert_eq!(running.pid, None, "PgBouncer runs already");
            let pid = running.supervisor.start(&self.command).expect("the supervisor answers");
            running.pid = Pid::from_raw(pid);
        }
        // Its own, which needs no server.
        self.wait(CONSOLE).await;
    }

    /// Ends it at once, and with it every connection.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
        let mut running = self.running();
        running.supervisor.wait().expect("the supervisor answers");
        running.pid = None;
    }

    /// Freezes it.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Wakes it.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// From now on it goes to this server. If it does not run, it will when it does.
    ///
    /// # Panics
    ///
    /// When its settings cannot be written.
    pub fn redirect(&self, server: &Server) {
        let running = self.running();
        let settings = settings(self.port, &server.url("postgres"));
        std::fs::write(&self.settings, settings).expect("the settings can be written");
        if let Some(pid) = running.pid {
            kill_process(pid, Signal::HUP).expect("it runs");
        }
    }

    /// How many transactions it has carried to a database since its start.
    ///
    /// # Errors
    ///
    /// What the connection to it says.
    pub async fn transactions(&self, database: &TestDatabase) -> sqlx::Result<u64> {
        let mut console = PgConnection::connect(&self.url_of(CONSOLE)).await?;
        let all = sqlx::raw_sql("SHOW STATS").fetch_all(&mut console).await?;
        let ours = all.iter().find(|row| row.get::<&str, _>("database") == database.name());
        let count: &str = ours.map_or(Ok("0"), |row| row.try_get_unchecked("total_xact_count"))?;
        count.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))
    }

    /// Whether whoever dials this URL comes to a pooler: two clients at once are served by one backend. Nobody else may use
    /// it meanwhile.
    ///
    /// # Errors
    ///
    /// What the database or the connection to it says.
    pub async fn is_at(url: &str) -> sqlx::Result<bool> {
        let mut one = PgConnection::connect(url).await?;
        let mut other = PgConnection::connect(url).await?;
        let first = Postgres::number(&mut one, BACKEND).await?;
        let second = Postgres::number(&mut other, BACKEND).await?;
        one.close().await?;
        other.close().await?;
        Ok(first == second)
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://any@127.0.0.1:{}/{database}", self.port)
    }

    async fn wait(&self, database: &str) {
        let url = self.url_of(database);
        let answers = async {
            while PgConnection::connect(&url).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let answered = tokio::time::timeout(PATIENCE, answers).await;
        answered.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for PgBouncer to answer"));
    }

    fn signal(&self, signal: Signal) {
        let pid = self.running().pid.expect("PgBouncer runs");
        kill_process(pid, signal).expect("it runs");
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().expect("nothing panics while it holds this")
    }
}

/// The database in which it tells of itself.
const CONSOLE: &str = "pgbouncer";

const BACKEND: &str = "SELECT pg_backend_pid()::bigint";

/// Before every database of the server of this URL. Who waits for a lock, or is gone half-way, has a connection of the
/// server until that is over, and the others need theirs. The default of 15 s after a refused connection is to 15 s of a
/// lease as this is to 3.
fn settings(listens: u16, url: &str) -> String {
    let (user, password, host, port) = parts(url);
    format!(
        "[databases]\n* = host={host} port={port} user={user} password={password}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {listens}\nunix_socket_dir =\nauth_type = any\n\
         pool_mode = transaction\nignore_startup_parameters = extra_float_digits\nmax_client_conn = 1000\n\
         default_pool_size = 100\nserver_login_retry = 0.5\n"
    )
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
