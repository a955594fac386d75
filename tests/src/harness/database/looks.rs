//! What tests look at and break in a database, as its administrator.

use std::time::Duration;

use serde::Serialize;
use sqlx::{AssertSqlSafe, Connection, MySqlPool, PgPool, SqliteConnection, SqlitePool};
use tokio::sync::Mutex;

use super::{Kind, Pool, TestDatabase};

/// A row of the table `ledger`, written by the replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerRow {
    /// The work's name.
    pub name: String,
    /// The term it was written under.
    pub term: i64,
    /// The replica that wrote it.
    pub instance: String,
    /// Counts the rows of one process.
    pub seq: i64,
    /// When, by that replica's wall clock.
    pub at_ms: i64,
}

/// A row of the table `leader_sessions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// The namespace it campaigns in.
    pub namespace: String,
    /// The replica it belongs to.
    pub instance: String,
    /// When it ends unless it is renewed, by the database's clock.
    pub expires_at_ms: i64,
}

/// A row of the table `leader_names`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRow {
    /// The namespace of the name.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Its present or last term.
    pub term: i64,
    /// The session that holds it or did so last.
    pub session_id: Option<String>,
}

macro_rules! on_pool {
    ($database:expr, $pool:ident => $do:expr) => {
        match &$database.pool {
            Pool::Postgres($pool) => $do,
            Pool::MySql($pool) => $do,
            Pool::Sqlite($pool) => $do,
        }
    };
}

impl TestDatabase {
    /// The pool for the administrator of a PostgreSQL database.
    pub fn postgres(&self) -> Option<&PgPool> {
        if let Pool::Postgres(pool) = &self.pool { Some(pool) } else { None }
    }

    /// The pool for the administrator of a MariaDB database.
    pub fn mysql(&self) -> Option<&MySqlPool> {
        if let Pool::MySql(pool) = &self.pool { Some(pool) } else { None }
    }

    /// A pool for the SQLite file.
    pub fn sqlite(&self) -> Option<&SqlitePool> {
        if let Pool::Sqlite(pool) = &self.pool { Some(pool) } else { None }
    }

    /// Runs statements as the administrator and returns how many rows they changed.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn execute(&self, statements: &str) -> u64 {
        let result = self.try_execute(statements).await;
        result.unwrap_or_else(|error| panic!("`{statements}` on {}: {error}", self.kind))
    }

    /// The same on a server that may be down.
    ///
    /// # Errors
    ///
    /// What the database or the connection to it says.
    pub async fn try_execute(&self, statements: &str) -> sqlx::Result<u64> {
        on_pool!(self, pool => {
            sqlx::raw_sql(AssertSqlSafe(statements)).execute(pool).await.map(|done| done.rows_affected())
        })
    }

    /// Asks for one number as the administrator.
    ///
    /// # Panics
    ///
    /// When the database refuses, or the answer is no number.
    pub async fn number(&self, query: &str) -> i64 {
        let result = self.try_number(query).await;
        result.unwrap_or_else(|error| panic!("`{query}` on {}: {error}", self.kind))
    }

    /// Asks for one number as the administrator, on a server that may be down.
    ///
    /// # Errors
    ///
    /// What the database or the connection to it says.
    pub async fn try_number(&self, query: &str) -> sqlx::Result<i64> {
        on_pool!(self, pool => {
            sqlx::query_scalar(AssertSqlSafe(query)).persistent(false).fetch_one(pool).await
        })
    }

    /// The ledger in the order of its commits, which is that of its ids: the fence lets one replica write at a time.
    /// Empty before the first replica made the table.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn ledger(&self) -> Vec<LedgerRow> {
        if !self.has_table("ledger").await {
            return Vec::new();
        }
        let rows = self.try_ledger(0).await.expect("the ledger can be read");
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Its rows from this id on, each with its id, from a server that may be down.
    ///
    /// # Errors
    ///
    /// What the database or the connection to it says, that there is no such table yet among it.
    pub async fn try_ledger(&self, from: i64) -> sqlx::Result<Vec<(i64, LedgerRow)>> {
        let query =
            format!("SELECT id, name, term, instance, seq, at_ms FROM ledger WHERE id >= {from} ORDER BY id");
        let rows: Vec<(i64, String, i64, String, i64, i64)> = on_pool!(self, pool => {
            sqlx::query_as(AssertSqlSafe(query)).persistent(false).fetch_all(pool).await?
        });
        let row =
            |(id, name, term, instance, seq, at_ms)| (id, LedgerRow { name, term, instance, seq, at_ms });
        Ok(rows.into_iter().map(row).collect())
    }

    /// Every session.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn sessions(&self) -> Vec<SessionRow> {
        const ANY: &str = "SELECT id, namespace, instance, expires_at_ms FROM leader_sessions";
        const MYSQL: &str = "SELECT id, CONVERT(namespace USING utf8mb4) AS namespace, instance, expires_at_ms \
                             FROM leader_sessions";
        let rows = match &self.pool {
            Pool::Postgres(pool) => sqlx::query_as(ANY).fetch_all(pool).await,
            Pool::MySql(pool) => sqlx::query_as(MYSQL).fetch_all(pool).await,
            Pool::Sqlite(pool) => sqlx::query_as(ANY).fetch_all(pool).await,
        };
        let rows: Vec<(String, String, String, i64)> = rows.expect("the sessions can be read");
        let row =
            |(id, namespace, instance, expires_at_ms)| SessionRow { id, namespace, instance, expires_at_ms };
        rows.into_iter().map(row).collect()
    }

    /// Every name.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn names(&self) -> Vec<NameRow> {
        const ANY: &str =
            "SELECT namespace, name, term, session_id FROM leader_names ORDER BY namespace, name";
        const MYSQL: &str = "SELECT CONVERT(namespace USING utf8mb4) AS namespace, CONVERT(name USING utf8mb4) AS name, \
                             term, session_id FROM leader_names ORDER BY namespace, name";
        let rows = match &self.pool {
            Pool::Postgres(pool) => sqlx::query_as(ANY).fetch_all(pool).await,
            Pool::MySql(pool) => sqlx::query_as(MYSQL).fetch_all(pool).await,
            Pool::Sqlite(pool) => sqlx::query_as(ANY).fetch_all(pool).await,
        };
        let rows: Vec<(String, String, i64, Option<String>)> = rows.expect("the names can be read");
        rows.into_iter()
            .map(|(namespace, name, term, session_id)| NameRow { namespace, name, term, session_id })
            .collect()
    }

    /// Deletes every session by hand, and returns how many there were.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn delete_all_sessions(&self) -> u64 {
        self.execute("DELETE FROM leader_sessions").await
    }

    /// Deletes the sessions of one replica by hand, and returns how many there were.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn delete_sessions_of(&self, instance: &str) -> u64 {
        assert!(!instance.contains('\''), "an instance that needs no quoting");
        self.execute(&format!("DELETE FROM leader_sessions WHERE instance = '{instance}'")).await
    }

    /// Whether somebody who does not run holds the write lock of a SQLite file. Never on a server, which ends such a
    /// transaction in time.
    ///
    /// # Panics
    ///
    /// When the file cannot be opened.
    pub async fn is_held_up(&self) -> bool {
        /// Longer than a transaction of somebody who runs.
        const PATIENT: Duration = Duration::from_millis(500);

        let Some(pool) = self.sqlite() else { return false };
        let options = (*pool.connect_options()).clone().busy_timeout(PATIENT);
        let mut connection = SqliteConnection::connect_with(&options).await.expect("the file can be opened");
        let held = sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK").execute(&mut connection).await.is_err();
        let _ = connection.close().await;
        held
    }

    /// How many transactions are open and idle, those of replicas that hold one while they do something else. Always 0
    /// on SQLite, which does not tell.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn idle_transactions(&self) -> i64 {
        let query = match self.kind {
            Kind::Postgres => {
                "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
            }
            Kind::MySql => {
                "SELECT count(*) FROM information_schema.innodb_trx t \
                 JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                 WHERE p.db = database() AND p.command = 'Sleep'"
            }
            Kind::Sqlite => return 0,
        };
        self.present_number(query).await
    }

    /// How many statements wait for the lock of another transaction. Always 0 on SQLite, which does not tell.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn lock_waits(&self) -> i64 {
        let query = match self.kind {
            Kind::Postgres => {
                "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'"
            }
            Kind::MySql => {
                "SELECT count(*) FROM information_schema.innodb_trx t \
                 JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                 WHERE p.db = database() AND t.trx_state = 'LOCK WAIT'"
            }
            Kind::Sqlite => return 0,
        };
        self.present_number(query).await
    }

    /// A number from the tables of transactions.
    async fn present_number(&self, query: &str) -> i64 {
        /// `InnoDB` answers from a copy, and renews it only when nobody has read it for 100 ms.
        static UNREAD: Mutex<()> = Mutex::const_new(());
        const LONG_ENOUGH: Duration = Duration::from_millis(120);

        let mut unread = None;
        if self.kind == Kind::MySql {
            unread = Some(UNREAD.lock().await);
            tokio::time::sleep(LONG_ENOUGH).await;
        }
        let number = self.number(query).await;
        drop(unread);
        number
    }

    async fn has_table(&self, table: &str) -> bool {
        let query = match self.kind {
            Kind::Postgres => format!("SELECT count(to_regclass('{table}'))"),
            Kind::MySql => format!(
                "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = '{table}'"
            ),
            Kind::Sqlite => format!("SELECT count(*) FROM sqlite_master WHERE name = '{table}'"),
        };
        self.number(&query).await > 0
    }
}
