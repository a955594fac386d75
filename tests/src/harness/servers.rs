//! PostgreSQL and MariaDB, started by the tests themselves and gone with them.
//!
//! Durable settings stay on: what these servers acknowledge is on the disk, as in production. Two roles exist, `leader`,
//! which owns the databases of the tests and nothing else, and an administrator for the tests themselves.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row};
use tokio::sync::OnceCell;

use super::database::Kind;
use super::install::{self, Clock, Installed, PASSWORD};
use super::now_ms;
use super::supervisor::{Supervisor, tail};

/// A database server, the tests' own or one that was given to them.
pub struct Server {
    kind: Kind,
    origin: Origin,
}

enum Origin {
    /// `LEADER_TEST_POSTGRES_URL` or `LEADER_TEST_MYSQL_URL`.
    Given { url: String },
    Ours {
        supervisor: Mutex<Supervisor>,
        command: String,
        pid: Mutex<Option<i32>>,
        port: u16,
        directory: PathBuf,
    },
}

impl Server {
    /// The server that the tests of this process share, started when the first of them asks.
    ///
    /// # Panics
    ///
    /// When it cannot be started, with what to install if that is the reason, and for SQLite, which has none.
    pub async fn shared(kind: Kind) -> &'static Self {
        static POSTGRES: OnceCell<Server> = OnceCell::const_new();
        static MYSQL: OnceCell<Server> = OnceCell::const_new();
        let (cell, variable) = match kind {
            Kind::Postgres => (&POSTGRES, "LEADER_TEST_POSTGRES_URL"),
            Kind::MySql => (&MYSQL, "LEADER_TEST_MYSQL_URL"),
            Kind::Sqlite => panic!("SQLite has no server"),
        };
        let start = async || match std::env::var(variable) {
            Ok(url) => Self { kind, origin: Origin::Given { url } },
            Err(_) => Self::own(kind).await,
        };
        cell.get_or_init(start).await
    }

    /// A server for one test, which may kill and freeze it. It is gone when dropped.
    ///
    /// PostgreSQL logs each statement here, for [`Server::statements`].
    ///
    /// # Panics
    ///
    /// As [`Server::shared`], which the variables of the environment do not affect here.
    pub async fn own(kind: Kind) -> Self {
        Self::installed(kind, Clock::Machine).await
    }

    /// The same with a clock that the test sets, in a zone with daylight saving.
    ///
    /// # Panics
    ///
    /// As [`Server::own`].
    pub async fn own_with_clock(kind: Kind) -> Self {
        Self::installed(kind, Clock::Set).await
    }

    async fn installed(kind: Kind, clock: Clock) -> Self {
        let install = if kind == Kind::Postgres { install::postgres } else { install::mariadb };
        Self::started(kind, move || install(clock)).await
    }

    pub(super) async fn started(
        kind: Kind,
        install: impl FnOnce() -> anyhow::Result<Installed> + Send + 'static,
    ) -> Self {
        let installed = tokio::task::spawn_blocking(install).await.expect("no panic in here");
        let installed = installed.unwrap_or_else(|error| panic!("{kind} does not start: {error:?}"));
        let Installed { supervisor, command, port } = installed;
        let directory = supervisor.directory().to_owned();
        let (supervisor, pid) = (Mutex::new(supervisor), Mutex::new(None));
        let server = Self { kind, origin: Origin::Ours { supervisor, command, pid, port, directory } };
        server.start().await;
        server
    }

    /// Which databases it serves.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The id of the server's process, if it runs and is ours.
    pub fn pid(&self) -> Option<i32> {
        match &self.origin {
            Origin::Given { .. } => None,
            Origin::Ours { pid, .. } => *lock(pid),
        }
    }

    /// The URL of a database for the role that owns it.
    pub fn url(&self, database: &str) -> String {
        self.url_for("leader", database)
    }

    /// The URL of a database for the administrator.
    pub fn admin_url(&self, database: &str) -> String {
        self.url_for("admin", database)
    }

    /// The directory of its unix socket, data and log, if it is ours.
    pub fn directory(&self) -> Option<&Path> {
        match &self.origin {
            Origin::Given { .. } => None,
            Origin::Ours { directory, .. } => Some(directory),
        }
    }

    /// Makes an empty database under a name that nobody else uses, and returns the name.
    ///
    /// # Panics
    ///
    /// When the server refuses.
    pub async fn create_database(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("leader_test_{}_{number}", getpid().as_raw_nonzero());
        let mut statements = vec![format!("CREATE DATABASE {name}")];
        if let Origin::Ours { .. } = self.origin {
            statements.push(match self.kind {
                Kind::Postgres => format!("ALTER DATABASE {name} OWNER TO leader"),
                _ => format!("GRANT ALL ON {name}.* TO leader"),
            });
        }
        for statement in statements {
            self.administer(&statement).await.unwrap_or_else(|error| panic!("`{statement}`: {error:?}"));
        }
        name
    }

    /// Removes the database of a test from a server that stays.
    pub(crate) fn drop_database(&self, name: &str) {
        let Origin::Given { .. } = self.origin else {
            return;
        };
        let statement = match self.kind {
            Kind::Postgres => format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            _ => format!("DROP DATABASE IF EXISTS {name}"),
        };
        // On a thread of its own, since this is called while a runtime drops its tasks.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let _ = runtime.map(|runtime| runtime.block_on(self.administer(&statement)));
            });
        });
    }

    /// How many statements the server has been sent so far, this question among them.
    ///
    /// # Panics
    ///
    /// When it is no server of the test's own.
    pub async fn statements(&self) -> u64 {
        let Origin::Ours { supervisor, .. } = &self.origin else {
            panic!("a server that others may use counts their statements too: take `Server::own`");
        };
        if self.kind == Kind::Postgres {
            self.administer("SELECT 'counted'").await.expect("the server answers");
            let log = lock(supervisor).log();
            let log = std::fs::read(log).expect("the log can be read");
            let log = String::from_utf8_lossy(&log);
            let sent = |line: &&str| line.contains("LOG:  statement: ") || line.contains("LOG:  execute ");
            return log.lines().filter(sent).count() as u64;
        }
        let mut connection =
            MySqlConnection::connect(&self.admin_url("mysql")).await.expect("the server answers");
        let row = sqlx::raw_sql("SHOW GLOBAL STATUS LIKE 'Questions'").fetch_one(&mut connection).await;
        let value: String = row.expect("the server answers").get("Value");
        value.parse().expect("a number")
    }

    /// Ends every process of the server at once, like a power cut.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn kill(&self) {
        // Frozen first, so that none is born or reaped in between.
        let all = self.signal(Signal::STOP);
        for process in &all {
            kill_process(*process, Signal::KILL).expect("it is frozen");
        }
        self.gone();
        // A new server refuses the data of the old one while a backend is left.
        while all
            .iter()
            .any(|process| stat(process.as_raw_nonzero().get()).is_ok_and(|(state, _)| state != 'Z'))
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Asks the server to end now, cutting all connections.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn shut_down(&self) {
        let pid = self.running();
        let gently = if self.kind == Kind::Postgres { Signal::INT } else { Signal::TERM };
        kill_process(pid, gently).expect("it runs");
        self.gone();
    }

    /// Freezes every process of the server.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Wakes every process of the server.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts the server and waits until it answers, at the same address as before.
    ///
    /// # Panics
    ///
    /// When it runs already, does not start, or is not ours.
    pub async fn start(&self) {
        const BOUND: Duration = Duration::from_mins(1);
        let Origin::Ours { supervisor, command, pid, .. } = &self.origin else {
            panic!("a server that was given is not ours to start");
        };
        let kind = self.kind;
        let started = {
            let mut pid = lock(pid);
            assert_eq!(*pid, None, "{kind} runs already");
            let started = lock(supervisor).start(command).expect("the supervisor answers");
            *pid = Some(started);
            started
        };
        let until = Instant::now() + BOUND;
        loop {
            let Err(error) = self.administer("SELECT 1").await else {
                return;
            };
            if is_zombie(started) || Instant::now() > until {
                let log = tail(&lock(supervisor).log());
                panic!("{kind} does not answer: {error:?}\n{log}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sets the clock of a server that was started [with one](Self::own_with_clock), to milliseconds since the epoch and by
    /// less than a second wrong. It goes on from there.
    ///
    /// # Panics
    ///
    /// When the file of the clock cannot be written.
    pub fn set_clock(&self, at_ms: i64) {
        let file = install::clock_file(self.directory().expect("a server of the test's own"));
        let seconds = (at_ms - now_ms()) / 1_000;
        std::fs::write(&file, format!("{seconds:+}\n")).expect("the clock can be set");
    }

    /// From now on this PostgreSQL server asks nobody for a password, which costs both sides some time.
    ///
    /// # Panics
    ///
    /// When its settings cannot be written.
    pub async fn trust_everybody(&self) {
        let directory = self.directory().expect("a server of the test's own");
        let settings = directory.join("data/pg_hba.conf");
        std::fs::write(settings, "host all all 127.0.0.1/32 trust\n").expect("the settings can be written");
        self.administer("SELECT pg_reload_conf()").await.expect("the server answers");
    }

    /// Kills the server and starts it again.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub async fn restart(&self) {
        self.kill();
        self.start().await;
    }

    /// Sends one statement as the administrator, outside any test's database.
    ///
    /// # Errors
    ///
    /// What the server says, or that it does not within five seconds.
    pub async fn administer(&self, statement: &str) -> anyhow::Result<()> {
        let url = self.admin_url(if self.kind == Kind::Postgres { "postgres" } else { "mysql" });
        let statement = sqlx::raw_sql(AssertSqlSafe(statement));
        let send = async {
            if self.kind == Kind::Postgres {
                let mut connection = PgConnection::connect(&url).await?;
                statement.execute(&mut connection).await?;
                connection.close().await
            } else {
                let mut connection = MySqlConnection::connect(&url).await?;
                statement.execute(&mut connection).await?;
                connection.close().await
            }
        };
        Ok(tokio::time::timeout(Duration::from_secs(5), send).await??)
    }

    fn url_for(&self, role: &str, database: &str) -> String {
        let scheme = if self.kind == Kind::Postgres { "postgres" } else { "mysql" };
        match &self.origin {
            Origin::Ours { port, .. } => {
                format!("{scheme}://{role}:{PASSWORD}@127.0.0.1:{port}/{database}")
            }
            Origin::Given { url } => {
                let (url, query) =
                    url.split_once('?').map_or((url.as_str(), None), |(url, query)| (url, Some(query)));
                let scheme = url.find("://").map_or(0, |at| at + "://".len());
                let server = url[scheme..].find('/').map_or(url, |at| &url[..scheme + at]);
                let query = query.map(|query| format!("?{query}")).unwrap_or_default();
                format!("{server}/{database}{query}")
            }
        }
    }

    pub(super) fn port(&self) -> u16 {
        match &self.origin {
            Origin::Given { .. } => panic!("a server that was given is not ours: take `Server::own`"),
            Origin::Ours { port, .. } => *port,
        }
    }

    fn running(&self) -> Pid {
        let Origin::Ours { pid, .. } = &self.origin else {
            panic!("a server that was given is not ours to break: take `Server::own`");
        };
        lock(pid).and_then(Pid::from_raw).expect("the server runs")
    }

    /// Sends a signal to the server and its backends, and returns these.
    fn signal(&self, signal: Signal) -> Vec<Pid> {
        let server = self.running();
        kill_process(server, signal).expect("it runs");
        let mut all = children_of(server);
        // One of them may have ended by itself.
        all.retain(|backend| kill_process(*backend, signal).is_ok());
        all.push(server);
        all
    }

    /// Waits until the server is gone that was told to end.
    fn gone(&self) {
        let Origin::Ours { supervisor, pid, .. } = &self.origin else {
            return;
        };
        lock(supervisor).wait().expect("the supervisor answers");
        *lock(pid) = None;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("kind", &self.kind).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

fn children_of(parent: Pid) -> Vec<Pid> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid
            && stat(pid.as_raw_nonzero().get())
                .is_ok_and(|(_, its_parent)| its_parent == parent.as_raw_nonzero().get())
        {
            children.push(pid);
        }
    }
    children
}

fn is_zombie(pid: i32) -> bool {
    stat(pid).is_ok_and(|(state, _)| state == 'Z')
}

/// State and parent of a process.
fn stat(pid: i32) -> io::Result<(char, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name before is in parentheses and may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = fields.split_whitespace();
    let state = fields.next().and_then(|state| state.chars().next());
    let parent = fields.next().and_then(|parent| parent.parse().ok());
    state.zip(parent).ok_or(io::ErrorKind::InvalidData.into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this")
}
