//! A lock that a test holds, so that somebody waits for it half-way through what he does.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, MySql, Postgres, Sqlite, raw_sql};

use super::database::{Kind, TestDatabase};
use super::deployment::Leader;
use super::eventually;
use super::replica::PATIENCE;

/// A transaction of the administrator's that holds a lock. Dropped, it holds it no longer.
#[derive(Debug)]
pub struct Lock<'d> {
    database: &'d TestDatabase,
    connection: Connection,
}

#[derive(Debug)]
enum Connection {
    Postgres(PoolConnection<Postgres>),
    MySql(PoolConnection<MySql>),
    Sqlite(PoolConnection<Sqlite>),
}

impl<'d> Lock<'d> {
    /// Takes it with this statement on a server. On SQLite it is the file, for every writer.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn take(database: &'d TestDatabase, statement: &str) -> Self {
        const ACQUIRED: &str = "the administrator's connection";

        // The pool would take it back with its transaction open, of which it does not know.
        let connection = if let Some(pool) = database.postgres() {
            let mut connection = pool.acquire().await.expect(ACQUIRED);
            connection.close_on_drop();
            Connection::Postgres(connection)
        } else if let Some(pool) = database.mysql() {
            let mut connection = pool.acquire().await.expect(ACQUIRED);
            connection.close_on_drop();
            Connection::MySql(connection)
        } else {
            let pool = database.sqlite().expect("no fourth kind");
            let mut connection = pool.acquire().await.expect(ACQUIRED);
            connection.close_on_drop();
            Connection::Sqlite(connection)
        };
        let mut lock = Self { database, connection };
        if database.kind == Kind::Sqlite {
            lock.run("BEGIN IMMEDIATE").await;
        } else {
            lock.run(&format!("BEGIN; {statement}")).await;
        }
        lock
    }

    /// Waits until somebody waits for it. On SQLite he does so at the begin of his transaction.
    ///
    /// # Panics
    ///
    /// When nobody does in good time.
    pub async fn is_waited_for(&self) {
        self.is_waited_for_by("TRUE").await;
    }

    /// Waits until one of these tenures waits for it, in a fenced transaction. Only PostgreSQL tells whose it is; elsewhere
    /// it is anybody.
    ///
    /// # Panics
    ///
    /// When none does in good time.
    pub async fn is_waited_for_in(&self, tenures: impl IntoIterator<Item = Leader>) {
        // The fence writes it there.
        let tagged = tenures.into_iter().map(|Leader { term, .. }| format!("'leader:{term}:%'"));
        let tagged = format!("application_name LIKE ANY (ARRAY[{}])", tagged.collect::<Vec<_>>().join(", "));
        self.is_waited_for_by(&tagged).await;
    }

    /// By somebody of whom this condition is true on PostgreSQL.
    async fn is_waited_for_by(&self, whom: &str) {
        /// Nothing tells who waits for a file.
        const ON_SQLITE: Duration = Duration::from_millis(300);

        let waiting = match self.database.kind {
            Kind::Postgres => format!(
                "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock' AND {whom}"
            ),
            Kind::MySql => "SELECT count(*) FROM information_schema.processlist \
                            WHERE db = database() AND state LIKE 'Waiting for%lock'"
                .to_owned(),
            Kind::Sqlite => return tokio::time::sleep(ON_SQLITE).await,
        };
        let waited_for = async || (self.database.number(&waiting).await > 0).then_some(());
        eventually("somebody who waits for the lock", PATIENCE, waited_for).await;
    }

    /// Commits, and so gives it back.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn release(mut self) {
        self.run("COMMIT").await;
    }

    /// Runs statements in the transaction that holds it.
    ///
    /// # Panics
    ///
    /// When the database refuses.
    pub async fn run(&mut self, statements: &str) {
        let statements_sent = raw_sql(AssertSqlSafe(statements));
        let done = match &mut self.connection {
            Connection::Postgres(connection) => statements_sent.execute(&mut **connection).await.map(drop),
            Connection::MySql(connection) => statements_sent.execute(&mut **connection).await.map(drop),
            Connection::Sqlite(connection) => statements_sent.execute(&mut **connection).await.map(drop),
        };
        done.unwrap_or_else(|error| panic!("`{statements}` on {}: {error}", self.database.kind));
    }
}
