//! Statements of tests that run on every database.

use std::time::Duration;

use leader::Fenced;
use sqlx::pool::PoolOptions;
use sqlx::{AssertSqlSafe, MySql, Pool, Postgres, Row, Sqlite, raw_sql};

use super::database::{Kind, TestDatabase};

/// A database of sqlx, as far as tests need it.
pub trait Sql: Fenced {
    /// Which one.
    const KIND: Kind;

    /// A column that counts the rows in the order of their inserts.
    const ID: &'static str;

    /// A pool of the application's own, for the role that owns the database.
    fn pool(database: &TestDatabase, size: u32) -> Pool<Self> {
        assert_eq!(database.kind, Self::KIND, "a pool fits the database");
        Self::pool_to(&database.url, size)
    }

    /// The same by another way.
    fn pool_to(url: &str, size: u32) -> Pool<Self>;

    /// Runs statements.
    fn run(
        connection: &mut Self::Connection,
        statements: &str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Asks for one number.
    fn number(
        connection: &mut Self::Connection,
        query: &str,
    ) -> impl Future<Output = sqlx::Result<i64>> + Send;

    /// Asks how many rows there are.
    fn rows(
        connection: &mut Self::Connection,
        query: &str,
    ) -> impl Future<Output = sqlx::Result<usize>> + Send;

    /// Asks for one text.
    fn text(
        connection: &mut Self::Connection,
        query: &str,
    ) -> impl Future<Output = sqlx::Result<String>> + Send;
}

macro_rules! sql {
    ($database:ident, $kind:ident, $id:literal) => {
        impl Sql for $database {
            const KIND: Kind = Kind::$kind;
            const ID: &'static str = $id;

            fn pool_to(url: &str, size: u32) -> Pool<Self> {
                PoolOptions::new()
                    .max_connections(size)
                    .acquire_timeout(Duration::from_secs(15))
                    .connect_lazy(url)
                    .expect("a good URL")
            }

            async fn run(connection: &mut Self::Connection, statements: &str) -> sqlx::Result<()> {
                let statements = raw_sql(AssertSqlSafe(statements));
                statements.execute(connection).await.map(drop)
            }

            async fn number(connection: &mut Self::Connection, query: &str) -> sqlx::Result<i64> {
                let query = raw_sql(AssertSqlSafe(query));
                query.fetch_one(connection).await?.try_get(0)
            }

            async fn rows(connection: &mut Self::Connection, query: &str) -> sqlx::Result<usize> {
                let query = raw_sql(AssertSqlSafe(query));
                Ok(query.fetch_all(connection).await?.len())
            }

            async fn text(connection: &mut Self::Connection, query: &str) -> sqlx::Result<String> {
                let query = raw_sql(AssertSqlSafe(query));
                query.fetch_one(connection).await?.try_get(0)
            }
        }
    };
}

sql!(Postgres, Postgres, "BIGSERIAL PRIMARY KEY");
sql!(MySql, MySql, "BIGINT AUTO_INCREMENT PRIMARY KEY");
sql!(Sqlite, Sqlite, "INTEGER PRIMARY KEY AUTOINCREMENT");
