//! PostgreSQL and MariaDB, started by the tests themselves and gone with them.
//!
//! Durable settings stay on: what these servers acknowledge is on the disk, as in production. Two roles exist, `leader`,
//! which owns the databases of the tests and nothing else, and an administrator for the tests themselves.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, geteuid, getpid, kill_process};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row};
use tokio::sync::OnceCell;

use super::database::Kind;
use super::supervisor::{Supervisor, quote, tail};

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
        let server =
            tokio::task::spawn_blocking(move || Self::install(kind)).await.expect("no panic in here");
        let server = server.unwrap_or_else(|error| panic!("{kind} does not start: {error:?}"));
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
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Wakes every process of the server.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn cont(&self) {
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

    fn install(kind: Kind) -> anyhow::Result<Self> {
        let port = free_port()?;
        let install = if kind == Kind::Postgres { install_postgres } else { install_mariadb };
        let (supervisor, command) = install(port)?;
        let directory = supervisor.directory().to_owned();
        Ok(Self {
            kind,
            origin: Origin::Ours {
                supervisor: Mutex::new(supervisor),
                command,
                pid: Mutex::new(None),
                port,
                directory,
            },
        })
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

const PASSWORD: &str = "secret";

fn install_postgres(port: u16) -> anyhow::Result<(Supervisor, String)> {
    let programs = postgres_programs()
        .context("no `initdb` found: install PostgreSQL (Debian: `apt-get install postgresql`)")?;
    let mut supervisor = Supervisor::new("postgres")?;
    let directory = supervisor.directory().to_owned();
    let data = directory.join("data");
    let program = |name: &str| format!("{}{}", as_user("postgres"), quote(programs.join(name)));

    std::fs::write(directory.join("password"), PASSWORD)?;
    hand_over(&mut supervisor, "postgres")?;
    supervisor.run(&format!(
        "{} -D {} -U admin --pwfile {} -A scram-sha-256 -E UTF8 --locale=C --no-sync",
        program("initdb"),
        quote(&data),
        quote(directory.join("password")),
    ))?;
    let role = format!("CREATE ROLE leader LOGIN PASSWORD '{PASSWORD}'");
    supervisor.run(&format!(
        r#"echo "{role}" | {} --single -D {} postgres"#,
        program("postgres"),
        quote(&data)
    ))?;
    supervisor.finally(&format!("{} stop -D {} -m immediate -t 10", program("pg_ctl"), quote(&data)))?;
    // A server that was killed leaves its System V segment; its id is in the file that it leaves as well.
    supervisor.after(&format!("ipcrm -m $(sed -n '7s/.* //p' {})", quote(data.join("postmaster.pid"))))?;
    let command = format!(
        "{} -D {} -p {port} -k {} -c listen_addresses=127.0.0.1 -c max_connections=300 -c log_statement=all \
         -c dynamic_shared_memory_type=mmap -c shared_buffers=32MB",
        program("postgres"),
        quote(&data),
        quote(&directory),
    );
    Ok((supervisor, command))
}

fn install_mariadb(port: u16) -> anyhow::Result<(Supervisor, String)> {
    let found = |name: &str| {
        let program = in_path(name, &["/usr/sbin", "/usr/local/sbin", "/usr/libexec"]);
        program.with_context(|| {
            format!("no `{name}` found: install MariaDB (Debian: `apt-get install mariadb-server`)")
        })
    };
    let (install, serve) = (found("mariadb-install-db")?, found("mariadbd")?);
    let mut supervisor = Supervisor::new("mariadb")?;
    let directory = supervisor.directory().to_owned();
    let data = directory.join("data");
    let as_user = as_user("mysql");

    let roles = directory.join("roles.sql");
    std::fs::write(
        &roles,
        format!(
            "CREATE USER IF NOT EXISTS admin IDENTIFIED BY '{PASSWORD}';\n\
             GRANT ALL ON *.* TO admin WITH GRANT OPTION;\n\
             CREATE USER IF NOT EXISTS leader IDENTIFIED BY '{PASSWORD}';\n"
        ),
    )?;
    hand_over(&mut supervisor, "mysql")?;
    // A server that starts removes the temporary tables that others have where it has its own.
    supervisor.run(&format!(
        "TMPDIR={} {as_user}{} --no-defaults --datadir={} --auth-root-authentication-method=normal --skip-test-db",
        quote(&directory),
        quote(install),
        quote(&data),
    ))?;
    let command = format!(
        "{as_user}{} --no-defaults --datadir={} --tmpdir={} --socket={} --port={port} --bind-address=127.0.0.1 --pid-file={} \
         --init-file={} --skip-name-resolve --max-connections=500 --innodb-buffer-pool-size=64M --innodb-log-file-size=48M",
        quote(serve),
        quote(&data),
        quote(&directory),
        quote(directory.join("socket")),
        quote(directory.join("pid")),
        quote(roles),
    );
    Ok((supervisor, command))
}

/// Servers refuse to run as root, and so does whoever has to read what root wrote.
fn hand_over(supervisor: &mut Supervisor, user: &str) -> anyhow::Result<()> {
    if geteuid().is_root() {
        let directory = quote(supervisor.directory());
        supervisor.run(&format!("chown -R {user} {directory}"))?;
    }
    Ok(())
}

/// What goes before a command that root must not run. `setpriv` leaves the process id as it is; `runuser` would stay.
fn as_user(user: &str) -> String {
    if geteuid().is_root() {
        format!("setpriv --reuid={user} --regid={user} --init-groups ")
    } else {
        String::new()
    }
}

fn postgres_programs() -> Option<PathBuf> {
    let mut versions: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let programs = entry.path().join("bin");
            programs.join("initdb").exists().then_some((version, programs))
        })
        .collect();
    versions.sort();
    let newest = versions.pop().map(|(_, programs)| programs);
    newest.or_else(|| in_path("initdb", &[]).and_then(|initdb| Some(initdb.parent()?.to_owned())))
}

fn in_path(program: &str, beside: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(beside.iter().map(PathBuf::from));
    places.map(|place| place.join(program)).find(|program| program.exists())
}

/// A port below those that the system hands out to clients: while a server is down, a client that dials it again and
/// again must not be given the server's own port.
fn free_port() -> anyhow::Result<u16> {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = std::iter::repeat_with(|| fastrand::u16(20_000..32_000)).take(1_000).find(free);
    port.context("no free port on the loopback interface")
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
