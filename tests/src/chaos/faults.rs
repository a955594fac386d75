//! How a database and the connections to it are broken.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection, raw_sql};
use tokio::time::{Instant, sleep, sleep_until};

use super::link::Link;
use super::post::instance;
use super::schedule::{Fault, Timed};
use crate::harness::{Kind, Server, TestDatabase};

/// What the replicas share, and their ways to it.
pub(super) struct Site {
    pub(super) database: TestDatabase,
    /// SQLite has none.
    pub(super) server: Option<Arc<Server>>,
    /// One of each replica; none where there is no server.
    pub(super) links: Vec<Link>,
}

impl Site {
    /// Breaks something, and mends it in the end.
    pub(super) async fn apply(&self, timed: &Timed) {
        let until = Instant::now() + timed.length;
        match timed.fault {
            Fault::Link { replica, whose, trouble } => {
                self.links[replica].set(whose, Some(trouble));
                sleep_until(until).await;
                self.links[replica].set(whose, None);
            }
            Fault::Restart { power_cut } => self.restart(power_cut, until).await,
            Fault::FreezeServer => {
                let server = self.server();
                server.stop();
                sleep_until(until).await;
                server.cont();
            }
            Fault::ReadOnly => {
                self.read_only(true).await;
                sleep_until(until).await;
                self.read_only(false).await;
            }
            Fault::KillBackends { count } => self.kill_backends(count).await,
            Fault::DeleteSessions { replica } => {
                let instance = instance(replica);
                self.insist(&format!("DELETE FROM leader_sessions WHERE instance = '{instance}'")).await;
            }
            Fault::DeleteName { name } => {
                self.insist(&format!("DELETE FROM leader_names WHERE name = '{name}'")).await;
            }
            Fault::EmptyTables => {
                self.insist("DELETE FROM leader_names").await;
                self.insist("DELETE FROM leader_sessions").await;
            }
            Fault::Lock => self.lock(timed.length).await,
            Fault::Kill { .. } | Fault::Term { .. } | Fault::Freeze { .. } => {
                unreachable!("processes have a post")
            }
        }
    }

    fn server(&self) -> &Arc<Server> {
        self.server.as_ref().expect("no fault of servers where there is none")
    }

    async fn restart(&self, power_cut: bool, until: Instant) {
        let server = Arc::clone(self.server());
        let end = move || if power_cut { server.kill() } else { server.shut_down() };
        tokio::task::spawn_blocking(end).await.expect("the server ends");
        sleep_until(until).await;
        self.server().start().await;
    }

    async fn read_only(&self, on: bool) {
        let statements: &[&str] = match (self.database.kind, on) {
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
            while self.server().administer(statement).await.is_err() {
                sleep(AGAIN).await;
            }
        }
    }

    async fn kill_backends(&self, count: u32) {
        if let Some(pool) = self.database.postgres() {
            let kill = format!(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity \
                 WHERE usename = 'leader' ORDER BY random() LIMIT {count}) AS chosen"
            );
            let _ = raw_sql(AssertSqlSafe(kill)).execute(pool).await;
        } else if let Some(pool) = self.database.mysql() {
            let chosen = format!(
                "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE user = 'leader' ORDER BY RAND() LIMIT {count}"
            );
            let chosen = sqlx::query_scalar::<_, i64>(AssertSqlSafe(chosen)).fetch_all(pool).await;
            for id in chosen.unwrap_or_default() {
                let _ = raw_sql(AssertSqlSafe(format!("KILL CONNECTION {id}"))).execute(pool).await;
            }
        }
    }

    /// Until the database has done it.
    async fn insist(&self, statement: &str) {
        while self.database.try_execute(statement).await.is_err() {
            sleep(AGAIN).await;
        }
    }

    async fn lock(&self, length: Duration) {
        let url = &self.database.url;
        let mut connection = loop {
            match begin_immediate(url).await {
                Ok(connection) => break connection,
                // Somebody who is frozen may hold it.
                Err(_) => sleep(AGAIN).await,
            }
        };
        sleep(length).await;
        raw_sql("ROLLBACK").execute(&mut connection).await.expect("it is open");
        let _ = connection.close().await;
    }
}

async fn begin_immediate(url: &str) -> sqlx::Result<SqliteConnection> {
    let mut connection = SqliteConnection::connect(url).await?;
    raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await?;
    Ok(connection)
}

/// Between two attempts at a database that is down.
const AGAIN: Duration = Duration::from_millis(100);
