//! How the servers of the tests are installed: each in a directory of its own, on a port of its own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::process::geteuid;

use super::supervisor::{Supervisor, quote};

/// Of every role.
pub(super) const PASSWORD: &str = "secret";

/// What is left to do is to start it.
pub(super) struct Installed {
    pub(super) supervisor: Supervisor,
    /// Starts it.
    pub(super) command: String,
    pub(super) port: u16,
}

/// The clock that a server goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Machine,
    /// One that the test sets, in a zone with daylight saving.
    Set,
}

pub(super) fn postgres(clock: Clock) -> anyhow::Result<Installed> {
    let mut supervisor = Supervisor::new("postgres")?;
    let directory = supervisor.directory().to_owned();
    let data = directory.join("data");
    let programs = postgres_programs()?;
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
    serve_postgres(supervisor, clock)
}

/// A standby of the PostgreSQL server at this port, which replicates while it runs.
pub(super) fn standby(primary: u16) -> anyhow::Result<Installed> {
    let mut supervisor = Supervisor::new("standby")?;
    hand_over(&mut supervisor, "postgres")?;
    supervisor.run(&format!(
        "PGPASSWORD={PASSWORD} {}{} -h 127.0.0.1 -p {primary} -U admin -D {} -R -X stream -c fast",
        as_user("postgres"),
        quote(postgres_programs()?.join("pg_basebackup")),
        quote(supervisor.directory().join("data")),
    ))?;
    serve_postgres(supervisor, Clock::Machine)
}

fn serve_postgres(mut supervisor: Supervisor, clock: Clock) -> anyhow::Result<Installed> {
    let directory = supervisor.directory().to_owned();
    let data = directory.join("data");
    let programs = postgres_programs()?;
    let (port, as_user) = (free_port()?, as_user("postgres"));
    supervisor.finally(&format!(
        "{as_user}{} stop -D {} -m immediate -t 10",
        quote(programs.join("pg_ctl")),
        quote(&data)
    ))?;
    // A server that was killed leaves its System V segment; its id is in the file that it leaves as well.
    supervisor.after(&format!("ipcrm -m $(sed -n '7s/.* //p' {})", quote(data.join("postmaster.pid"))))?;
    let zone =
        if clock == Clock::Set { " -c timezone=Europe/Berlin -c log_timezone=Europe/Berlin" } else { "" };
    let command = format!(
        "{as_user}{}{} -D {} -p {port} -k {} -c listen_addresses=127.0.0.1 -c max_connections=300 -c log_statement=all \
         -c dynamic_shared_memory_type=mmap -c shared_buffers=32MB{zone}",
        with_clock(clock, &directory)?,
        quote(programs.join("postgres")),
        quote(&data),
        quote(&directory),
    );
    Ok(Installed { supervisor, command, port })
}

pub(super) fn mariadb(clock: Clock) -> anyhow::Result<Installed> {
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

    let roles = init_file(&directory);
    std::fs::write(
        &roles,
        format!(
            "CREATE USER IF NOT EXISTS admin IDENTIFIED BY '{PASSWORD}';\n\
             GRANT ALL ON *.* TO admin WITH GRANT OPTION;\n\
             CREATE USER IF NOT EXISTS leader IDENTIFIED BY '{PASSWORD}';\n"
        ),
    )?;
    hand_over(&mut supervisor, "mysql")?;
    // A temporary directory of its own: servers that start delete what looks like their own of before.
    supervisor.run(&format!(
        "{as_user}{} --no-defaults --datadir={} --tmpdir={} --auth-root-authentication-method=normal --skip-test-db",
        quote(install),
        quote(&data),
        quote(&directory),
    ))?;
    let port = free_port()?;
    let command = format!(
        "{as_user}{}{} --no-defaults --datadir={} --tmpdir={} --socket={} --port={port} --bind-address=127.0.0.1 --pid-file={} \
         --init-file={} --skip-name-resolve --max-connections=500 --innodb-buffer-pool-size=64M --innodb-log-file-size=48M",
        with_clock(clock, &directory)?,
        quote(serve),
        quote(&data),
        quote(&directory),
        quote(directory.join("socket")),
        quote(directory.join("pid")),
        quote(roles),
    );
    Ok(Installed { supervisor, command, port })
}

/// What MariaDB does at each start, before it answers.
pub(super) fn init_file(directory: &Path) -> PathBuf {
    directory.join("roles.sql")
}

/// PgBouncer with these settings for the port that it listens at.
pub(super) fn pgbouncer(settings: impl FnOnce(u16) -> String) -> anyhow::Result<Installed> {
    let program = in_path("pgbouncer", &["/usr/sbin"])
        .context("no `pgbouncer` found: install it (Debian: `apt-get install pgbouncer`)")?;
    let mut supervisor = Supervisor::new("pgbouncer")?;
    let listens = free_port()?;
    let file = pgbouncer_settings(supervisor.directory());
    std::fs::write(&file, settings(listens))?;
    hand_over(&mut supervisor, "postgres")?;
    let command = format!("{}{} {}", as_user("postgres"), quote(program), quote(file));
    Ok(Installed { supervisor, command, port: listens })
}

/// Where PgBouncer reads its settings.
pub(super) fn pgbouncer_settings(directory: &Path) -> PathBuf {
    directory.join("pgbouncer.ini")
}

/// Where a server reads how far its clock is from the machine's.
pub(super) fn clock_file(directory: &Path) -> PathBuf {
    directory.join("clock")
}

/// What goes before the command of a server whose clock is to be set.
fn with_clock(clock: Clock, directory: &Path) -> anyhow::Result<String> {
    if clock == Clock::Machine {
        return Ok(String::new());
    }
    let library = libfaketime().context("no libfaketime found (Debian: `apt-get install libfaketime`)")?;
    std::fs::write(clock_file(directory), "+0\n")?;
    Ok(format!(
        "env TZ=Europe/Berlin LD_PRELOAD={} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 ",
        quote(library),
        quote(clock_file(directory)),
    ))
}

fn libfaketime() -> Option<PathBuf> {
    let below = |directory: PathBuf| directory.join("faketime/libfaketime.so.1");
    let in_multiarch = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut places = in_multiarch.map(|entry| below(entry.path())).chain([below("/usr/lib".into())]);
    places.find(|library| library.exists())
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

fn postgres_programs() -> anyhow::Result<PathBuf> {
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
    let newest =
        newest.or_else(|| in_path("initdb", &[]).and_then(|initdb| Some(initdb.parent()?.to_owned())));
    newest.context("no `initdb` found: install PostgreSQL (Debian: `apt-get install postgresql`)")
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
