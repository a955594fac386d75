//! What operators do to the tables under running replicas: terms grow all the same (I2), an older tenure is refused, and
//! everything recovers by itself.

use leader::{EventKind, TransactionError};
use leader_tests::harness::local::{Events, Puppet, SLEEPY};
use leader_tests::harness::{Kind, Sql, TestDatabase};
use sqlx::Pool;

use crate::{NAME, TIMINGS, elector, lead, lead_with, scenarios};

scenarios!(every database:
    rows_of_names_are_deleted,
    sessions_are_deleted,
    tables_are_emptied,
    tables_are_dropped,
    tables_are_dropped_and_recreated,
    an_old_dump_is_restored,
    one_table_of_an_old_dump_is_restored,
    what_is_no_session_is_refused_by_the_tables,
    what_is_no_session_stops_no_other_name,
);

async fn rows_of_names_are_deleted<DB: Sql>() {
    recovers::<DB>(Change::Delete(&["leader_names"])).await;
}

async fn sessions_are_deleted<DB: Sql>() {
    recovers::<DB>(Change::Delete(&["leader_sessions"])).await;
}

async fn tables_are_emptied<DB: Sql>() {
    recovers::<DB>(Change::Delete(&BOTH)).await;
}

async fn tables_are_dropped<DB: Sql>() {
    recovers::<DB>(Change::Drop).await;
}

async fn tables_are_dropped_and_recreated<DB: Sql>() {
    recovers::<DB>(Change::Recreate).await;
}

/// Another tenure's term, and a session that has ended since.
async fn an_old_dump_is_restored<DB: Sql>() {
    recovers::<DB>(Change::Restore(&BOTH)).await;
}

async fn one_table_of_an_old_dump_is_restored<DB: Sql>() {
    recovers::<DB>(Change::Restore(&["leader_names"])).await;
}

const BOTH: [&str; 2] = ["leader_sessions", "leader_names"];

#[derive(Clone, Copy)]
enum Change {
    Delete(&'static [&'static str]),
    Drop,
    Recreate,
    Restore(&'static [&'static str]),
}

impl Change {
    /// At once where the database can: what is seen half-way may be lost again.
    fn statements(self, kind: Kind) -> Vec<String> {
        let each = |tables: &[&str], statement: &str| -> String {
            let all: Vec<String> = tables.iter().map(|table| statement.replace("{}", table)).collect();
            format!("BEGIN; {}; COMMIT", all.join("; "))
        };
        let drop = match kind {
            Kind::Sqlite => each(&BOTH, "DROP TABLE {}"),
            _ => format!("DROP TABLE {}", BOTH.join(", ")),
        };
        match self {
            Self::Delete(tables) => vec![each(tables, "DELETE FROM {}")],
            Self::Drop => vec![drop],
            Self::Recreate => vec![drop, schema(kind).to_owned()],
            Self::Restore(tables) => {
                vec![each(tables, "DELETE FROM {}; INSERT INTO {} SELECT * FROM dump_{}")]
            }
        }
    }
}

fn schema(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => leader::tables::POSTGRES,
        Kind::MySql => leader::tables::MYSQL,
        Kind::Sqlite => leader::tables::SQLITE,
    }
}

/// The first tenure of all ends up in a dump. Then somebody leads who does not look at the tables for a while, and an
/// operator changes them.
async fn recovers<DB: Sql>(change: Change) {
    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let dumped = lead(&database.url, "dumped").await;
    let pool = DB::pool(&database, 2);
    for table in BOTH {
        run(&pool, &format!("CREATE TABLE dump_{table} AS SELECT * FROM {table}")).await;
    }
    dumped.running.shutdown().await.unwrap();

    let sleepy = lead_with(SLEEPY, &database.url, "sleepy").await;
    assert!(sleepy.tenure.term() > dumped.tenure.term());
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let standby = elector(&database.url, "standby", &events).work(NAME, puppet.work()).start().await.unwrap();
    sleepy.tenure.begin(&pool).await.unwrap().commit().await.unwrap();
    for statement in change.statements(DB::KIND) {
        run(&pool, &statement).await;
    }

    let next = puppet.tenure().await;
    assert!(next.term() > sleepy.tenure.term());
    assert!(sleepy.tenure.check().is_ok(), "it has not noticed");
    let refused = sleepy.tenure.begin(&pool).await.map(drop);
    assert!(matches!(refused, Err(TransactionError::Ended(_))), "{refused:?}");
    sleepy.running.shutdown().await.unwrap();
    // It stays so, and a fenced transaction commits.
    tokio::time::sleep(TIMINGS.lease).await;
    next.begin(&pool).await.unwrap().commit().await.unwrap();
    assert!(events.count(EventKind::Lost) <= 1, "{events:?}");
    standby.step_down(NAME).await.unwrap();
    assert!(puppet.tenure().await.term() > next.term());
    standby.shutdown().await.unwrap();
}

async fn run<DB: Sql>(pool: &Pool<DB>, statements: &str) {
    let mut connection = pool.acquire().await.unwrap();
    let done = DB::run(&mut connection, statements).await;
    done.unwrap_or_else(|error| panic!("`{statements}`: {error}"));
}

/// A name is given back by NULL, and by nothing else.
async fn what_is_no_session_is_refused_by_the_tables<DB: Sql>() {
    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let led = lead(&database.url, "first").await;
    let pool = DB::pool(&database, 1);
    let mut connection = pool.acquire().await.unwrap();
    for (table, column) in [("leader_names", "session_id"), ("leader_sessions", "id")] {
        for not_one in ["", "nobody", "0123456789ABCDEF0123456789abcdef"] {
            let change = format!("UPDATE {table} SET {column} = '{not_one}'");
            assert!(DB::run(&mut connection, &change).await.is_err(), "`{change}`");
        }
    }
    led.running.shutdown().await.unwrap();
}

/// In tables that somebody else made, which let it in.
async fn what_is_no_session_stops_no_other_name<DB: Sql>() {
    const LEFT: &str = "left";

    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let pool = DB::pool(&database, 1);
    run(&pool, &unchecked(DB::KIND)).await;
    run(
        &pool,
        &format!(
            "INSERT INTO leader_names (namespace, name, session_id) VALUES ('default', '{LEFT}', 'nobody'); \
             INSERT INTO leader_sessions (id, namespace, instance, started_at_ms, expires_at_ms) VALUES ('nobody', 'default', 'x', 0, 0)"
        ),
    )
    .await;
    let events = Events::default();
    let (mut first, mut second) = (Puppet::default(), Puppet::default());
    let campaign = |instance, puppet: &Puppet| {
        elector(&database.url, instance, &events).work(NAME, puppet.work()).work(LEFT, puppet.work())
    };
    let leading = campaign("first", &first).start().await.unwrap();
    let tenure = first.tenure().await;
    assert_eq!(tenure.name(), NAME);
    let standby = campaign("second", &second).start().await.unwrap();
    leading.shutdown().await.unwrap();
    let next = second.tenure().await;
    assert_eq!(next.name(), NAME);
    assert!(next.term() > tenure.term());

    run(&pool, "UPDATE leader_names SET session_id = NULL WHERE session_id = 'nobody'").await;
    assert_eq!(second.tenure().await.name(), LEFT);
    standby.shutdown().await.unwrap();
}

/// The tables without their checks.
fn unchecked(kind: Kind) -> String {
    let lines = schema(kind).lines().map(|line| match line.split_once(" CHECK ") {
        Some((column, _)) => format!("{column},\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}
