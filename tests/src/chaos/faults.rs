//! How a database and the connections to it are broken.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, MySql, Postgres, Sqlite, SqliteConnection, raw_sql};
use tokio::time::{Instant, sleep, sleep_until};

use super::conditions::Conditions;
use super::history::{Disturbance, Span};
use super::operator;
use super::route::Routes;
use super::schedule::{Fault, Timed};
use crate::harness::{Kind, Server, Sql, TestDatabase, now_ms};

/// What the replicas share, and their ways to it.
pub(super) struct Site {
    /// The one that everybody uses comes last; before it those that were lost.
    places: Mutex<Vec<Arc<Place>>>,
    pub(super) routes: Routes,
}

/// Where the database is.
pub(super) struct Place {
    pub(super) database: TestDatabase,
    /// SQLite has none.
    server: Option<Server>,
}

impl Site {
    pub(super) async fn new(database: TestDatabase, server: Option<Server>, conditions: Conditions) -> Self {
        let place = Place { database, server };
        let routes = Routes::lay(conditions, &place).await;
        Self { places: Mutex::new(vec![Arc::new(place)]), routes }
    }

    /// Where everybody looks for the database now, and how many failovers that is after the first place.
    pub(super) fn place(&self) -> (usize, Arc<Place>) {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let last = places.last().expect("there is always one");
        (places.len() - 1, Arc::clone(last))
    }

    /// Breaks something, and mends it in the end.
    pub(super) async fn apply(&self, timed: Timed) -> Disturbance {
        let (mut from, until) = (now_ms(), Instant::now() + timed.length);
        let (mut came, mut missed) = (true, None);
        match timed.fault {
            Fault::Link { replica, whose, trouble } => {
                let link = self.routes.link(replica);
                let before = link.met_of(whose, trouble);
                link.set(whose, Some(trouble));
                sleep_until(until).await;
                link.set(whose, None);
                came = link.met_of(whose, trouble) > before;
            }
            Fault::Restart { power_cut } => self.restart(power_cut, until).await,
            Fault::FreezeServer => {
                let (_, place) = self.place();
                place.server().freeze();
                sleep_until(until).await;
                place.server().wake();
            }
            Fault::ReadOnly => {
                self.read_only(true).await;
                sleep_until(until).await;
                self.read_only(false).await;
            }
            Fault::FailOver => {
                let went = self.fail_over(timed.length).await;
                missed = Some(Span { from, until: went.until });
                from = went.from;
            }
            Fault::KillPooler => {
                let pooler = self.routes.pooler();
                pooler.kill();
                sleep_until(until).await;
                pooler.start().await;
            }
            Fault::FreezePooler => {
                self.routes.pooler().freeze();
                sleep_until(until).await;
                self.routes.pooler().wake();
            }
            Fault::Reroute { replica } => {
                // No failover in between.
                let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
                self.routes.change(replica, places.last().expect("there is always one"));
            }
            Fault::KillBackends { count } => came = self.kill_backends(count).await,
            Fault::Lock => came = self.lock("", timed.length).await,
            Fault::LockRows { table } => came = self.lock(table, timed.length).await,
            Fault::RestoreTables => from = operator::restore(self, until).await,
            Fault::DeleteSessions { .. }
            | Fault::DeleteName { .. }
            | Fault::EmptyTables
            | Fault::DropTables { .. } => came = operator::apply(self, &timed.fault).await,
            Fault::Kill { .. } | Fault::Term { .. } | Fault::Freeze { .. } => {
                unreachable!("processes have a post")
            }
        }
        Disturbance { timed, span: Span { from, until: now_ms() }, came, missed }
    }

    /// Until the database has done it, wherever it is. How many rows it answered.
    pub(super) async fn insist(&self, statements: &str) -> usize {
        loop {
            match self.place().1.run(statements, Duration::ZERO).await {
                Ok(rows) => return rows,
                Err(_) => sleep(AGAIN).await,
            }
        }
    }

    async fn restart(&self, power_cut: bool, until: Instant) {
        let (_, place) = self.place();
        let ending = Arc::clone(&place);
        let end = move || if power_cut { ending.server().kill() } else { ending.server().shut_down() };
        tokio::task::spawn_blocking(end).await.expect("the server ends");
        sleep_until(until).await;
        place.server().start().await;
    }

    async fn read_only(&self, on: bool) {
        let (_, place) = self.place();
        let statements: &[&str] = match (place.database.kind, on) {
            (Kind::Postgres, true) => {
                &["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"]
            }
            (Kind::Postgres, false) => {
                &["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"]
            }
            (_, true) => &["SET GLOBAL read_only = 1"],
            (_, false) => &["SET GLOBAL read_only = 0"],
        };
        for statement in statements {
            while place.server().administer(statement).await.is_err() {
                sleep(AGAIN).await;
            }
        }
    }

    /// The standby misses what is committed in this time. Says when the primary went: until then nothing was lost.
    async fn fail_over(&self, behind: Duration) -> Span {
        let (_, old) = self.place();
        let standby = old.server().standby().await;
        let database = old.database.on_standby(&standby);
        standby.fall_behind().await;
        sleep(behind).await;
        let from = now_ms();
        tokio::task::spawn_blocking(move || old.server().kill()).await.expect("the server ends");
        let went = Span { from, until: now_ms() };
        standby.promote().await;
        let place = Arc::new(Place { database, server: Some(standby) });
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        self.routes.fail_over(&place);
        places.push(place);
        went
    }

    /// Whether one was killed.
    async fn kill_backends(&self, count: u32) -> bool {
        let (_, place) = self.place();
        if let Some(pool) = place.database.postgres() {
            let kill = format!(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity \
                 WHERE usename = 'leader' ORDER BY random() LIMIT {count}) AS chosen"
            );
            let killed = sqlx::query_scalar::<_, bool>(AssertSqlSafe(kill)).fetch_all(pool).await;
            return killed.is_ok_and(|killed| killed.contains(&true));
        } else if let Some(pool) = place.database.mysql() {
            let chosen = format!(
                "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE user = 'leader' ORDER BY RAND() LIMIT {count}"
            );
            let chosen = sqlx::query_scalar::<_, i64>(AssertSqlSafe(chosen)).fetch_all(pool).await;
            let mut killed = false;
            for id in chosen.unwrap_or_default() {
                let kill = raw_sql(AssertSqlSafe(format!("KILL CONNECTION {id}")));
                killed |= kill.execute(pool).await.is_ok();
            }
            return killed;
        }
        false
    }

    /// Holds the lock of a file, or those of the rows of a table. Whether it had one.
    async fn lock(&self, table: &str, length: Duration) -> bool {
        /// Somebody who is frozen may hold it, the table be gone, or the server.
        const TRIES: u32 = 50;

        for _ in 0..TRIES {
            let (_, place) = self.place();
            let lock = match place.database.kind {
                Kind::Postgres => {
                    &format!("BEGIN; SET LOCAL lock_timeout = '1s'; SELECT 1 FROM {table} FOR UPDATE")
                }
                Kind::MySql => &format!(
                    "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1; BEGIN; SELECT 1 FROM {table} FOR UPDATE"
                ),
                Kind::Sqlite => "BEGIN IMMEDIATE",
            };
            match place.run(lock, length).await {
                Ok(rows) => return rows > 0 || place.database.kind == Kind::Sqlite,
                Err(_) => sleep(AGAIN).await,
            }
        }
        false
    }
}

impl Place {
    pub(super) fn server(&self) -> &Server {
        self.server.as_ref().expect("no fault of servers where there is none")
    }

    /// Runs statements on a connection of their own, and leaves open for a while what they have left open. How many rows
    /// they answered.
    async fn run(&self, statements: &str, open: Duration) -> sqlx::Result<usize> {
        let url = &self.database.url;
        match self.database.kind {
            Kind::Postgres => run::<Postgres>(url, statements, open).await,
            Kind::MySql => run::<MySql>(url, statements, open).await,
            Kind::Sqlite => run_on_file(url, statements, open).await,
        }
    }
}

/// Works that write without a pause leave no more than moments, which SQLite's own wait is too seldom awake for.
async fn run_on_file(url: &str, statements: &str, open: Duration) -> sqlx::Result<usize> {
    const OFTEN: &str = "PRAGMA busy_timeout = 10";
    const PAUSE: Duration = Duration::from_millis(5);
    const PATIENT: Duration = Duration::from_secs(5);

    let until = Instant::now() + PATIENT;
    let mut connection = SqliteConnection::connect(url).await?;
    Sqlite::run(&mut connection, OFTEN).await?;
    let rows = loop {
        match Sqlite::rows(&mut connection, statements).await {
            Err(_) if Instant::now() < until => {
                let _ = Sqlite::run(&mut connection, "ROLLBACK").await;
                sleep(PAUSE).await;
            }
            answer => break answer?,
        }
    };
    keep(connection, open).await;
    Ok(rows)
}

async fn run<DB: Sql>(url: &str, statements: &str, open: Duration) -> sqlx::Result<usize> {
    let mut connection = DB::Connection::connect(url).await?;
    let rows = DB::rows(&mut connection, statements).await?;
    keep(connection, open).await;
    Ok(rows)
}

async fn keep(connection: impl Connection, open: Duration) {
    sleep(open).await;
    let _ = connection.close().await;
}

/// Between two attempts at a database that is down.
const AGAIN: Duration = Duration::from_millis(100);
