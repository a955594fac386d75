//! Fenced transactions on real databases: what they write, when they are refused, and what they leave behind.
//!
//! Electors run inside the tests. A puppet hands its tenure to the test, which then plays the work.

mod basics;
mod black_hole;
mod cancelled;
mod clean;
mod elsewhere;
mod endings;
mod held;
mod isolation;
mod rolled_back;
mod round_trips;
mod settings;
mod stale;
mod turnstile;
mod yours;

use std::time::Duration;

use leader::{Builder, Tenure};
use leader_tests::harness::local::{Events, Led, elector};
use leader_tests::harness::{Kind, Sql, TestDatabase, eventually};
use sqlx::Pool;

/// The same scenarios, each a test of its own for each database named.
macro_rules! scenarios {
    (postgres: $($scenario:ident),+ $(,)?) => { $( scenarios!(@ $scenario postgres Postgres); )+ };
    (mysql: $($scenario:ident),+ $(,)?) => { $( scenarios!(@ $scenario mysql MySql); )+ };
    (sqlite: $($scenario:ident),+ $(,)?) => { $( scenarios!(@ $scenario sqlite Sqlite); )+ };
    (servers: $($scenario:ident),+ $(,)?) => {
        $( scenarios!(@ $scenario postgres Postgres mysql MySql); )+
    };
    (every database: $($scenario:ident),+ $(,)?) => {
        $( scenarios!(@ $scenario postgres Postgres mysql MySql sqlite Sqlite); )+
    };
    (@ $scenario:ident $($test:ident $database:ident)+) => {
        mod $scenario {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$scenario(crate::Stage::<sqlx::$database>::set().await).await;
                }
            )+
        }
    };
}
pub(crate) use scenarios;

/// The name that everybody campaigns for.
const NAME: &str = "mail";

/// A database with a table to write to.
struct Stage<DB: Sql> {
    database: TestDatabase,
    /// For the test's own looks.
    eyes: Pool<DB>,
}

impl<DB: Sql> Stage<DB> {
    async fn set() -> Self {
        Self::on(TestDatabase::create(DB::KIND).await).await
    }

    async fn on(database: TestDatabase) -> Self {
        let eyes = DB::pool(&database, 2);
        let stage = Self { database, eyes };
        stage
            .run(&format!("CREATE TABLE written (id {}, term BIGINT NOT NULL, what BIGINT NOT NULL)", DB::ID))
            .await;
        stage
    }

    /// A pool as the application would have it.
    fn pool(&self, size: u32) -> Pool<DB> {
        DB::pool(&self.database, size)
    }

    fn elector(&self, instance: &str, events: &Events) -> Builder {
        elector(&self.database.url, instance, events)
    }

    /// An elector that leads.
    async fn lead(&self) -> Led {
        self.lead_with(|builder| builder).await
    }

    async fn lead_with(&self, with: impl FnOnce(Builder) -> Builder) -> Led {
        Led::by(|events, puppet| with(self.elector("first", events)).work(NAME, puppet.work())).await
    }

    async fn run(&self, statements: &str) {
        let mut connection = self.eyes.acquire().await.expect("a connection");
        let done = DB::run(&mut connection, statements).await;
        done.unwrap_or_else(|error| panic!("`{statements}`: {error}"));
    }

    async fn number(&self, query: &str) -> i64 {
        let mut connection = self.eyes.acquire().await.expect("a connection");
        let number = DB::number(&mut connection, query).await;
        number.unwrap_or_else(|error| panic!("`{query}`: {error}"))
    }

    /// How many rows anybody else can see.
    async fn written(&self) -> i64 {
        self.number("SELECT count(*) FROM written").await
    }

    /// Whether somebody holds the row of the name; on SQLite, whether somebody holds the file.
    async fn is_locked(&self) -> bool {
        let mut connection = self.eyes.acquire().await.expect("a connection");
        if DB::KIND == Kind::Sqlite {
            let look = "PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; ROLLBACK";
            let locked = DB::run(&mut connection, look).await.is_err();
            let _ = DB::run(&mut connection, "PRAGMA busy_timeout = 5000").await;
            return locked;
        }
        let look = format!(
            "SELECT 1 FROM leader_names WHERE namespace = 'default' AND name = '{NAME}' FOR UPDATE SKIP LOCKED"
        );
        DB::rows(&mut connection, &look).await.expect("a look") == 0
    }

    /// Waits until nobody holds the row of the name, and no transaction sits anywhere.
    async fn is_free(&self) {
        eventually("the lock to go", Duration::from_secs(10), async || {
            (!self.is_locked().await).then_some(())
        })
        .await;
        self.is_idle().await;
    }

    /// Waits until no transaction sits anywhere.
    async fn is_idle(&self) {
        let bound = Duration::from_secs(10);
        eventually("the transactions to go", bound, async || {
            (self.database.idle_transactions().await == 0).then_some(())
        })
        .await;
    }

    /// Deletes the session of an elector by hand.
    async fn rob(&self, instance: &str) {
        assert_eq!(self.database.delete_sessions_of(instance).await, 1);
    }
}

/// A row under the term of the tenure.
fn row(tenure: &Tenure, what: i64) -> String {
    format!("INSERT INTO written (term, what) VALUES ({}, {what})", tenure.term())
}

/// Keeps a transaction from being idle, for this long.
async fn keep_busy<DB: Sql>(connection: &mut DB::Connection, how_long: Duration) {
    let until = tokio::time::Instant::now() + how_long;
    while tokio::time::Instant::now() < until {
        let alive = DB::number(connection, "SELECT count(*) FROM written").await;
        alive.expect("the transaction is alive");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
