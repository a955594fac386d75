//! A start that cannot be honoured fails at once, says why and what to do, and leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leader::{Builder, Elector, Error, Fault, Tenure, Timings};
use leader_tests::harness::local::{self, Led};
use leader_tests::harness::{Fate, Kind, PATIENCE, Proxy, Statement, TestDatabase, To, eventually};

fn elector(url: &str) -> Builder {
    Elector::builder().without_annotated().database(url).work("mail", |tenure: Tenure| async move {
        tenure.ended().await;
    })
}

/// Fails with each of these words in the error and what caused it.
async fn refused(builder: Builder, words: &[&str]) -> Error {
    let error = builder.start().await.expect_err("the start is refused");
    let said = format!("{error:?}");
    for word in words {
        assert!(said.contains(word), "`{word}` is missing in: {said}");
    }
    error
}

/// The URL for another role.
fn as_role(database: &TestDatabase, role: &str) -> String {
    assert!(database.url.contains("://leader:"), "{}", database.url);
    database.url.replace("://leader:", &format!("://{role}:"))
}

#[tokio::test]
async fn a_role_that_may_not_create_is_shown_the_sql_on_postgres() {
    let database = TestDatabase::create(Kind::Postgres).await;
    if !database.url.contains("://leader:") {
        return; // A server that was given: its roles are not ours.
    }
    database
        .execute(
            "DO $$ BEGIN CREATE ROLE limited LOGIN PASSWORD 'secret'; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
        )
        .await;
    let url = as_role(&database, "limited");
    refused(elector(&url), &["permission denied", "CREATE TABLE IF NOT EXISTS leader_names", "grant the"])
        .await;
    // With the tables there and the rights that the message names, it starts: it does not try to create.
    database.execute(leader::tables::POSTGRES).await;
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON leader_sessions, leader_names TO limited";
    database.execute(grant).await;
    // One right too few is missed now, and not when the first claim is refused.
    for right in ["UPDATE ON leader_names", "UPDATE ON leader_sessions", "DELETE ON leader_sessions"] {
        database.execute(&format!("REVOKE {right} FROM limited")).await;
        refused(
            elector(&url),
            &["permission denied", "grant the role SELECT, INSERT and UPDATE on both tables, and DELETE"],
        )
        .await;
        assert_eq!(database.number("SELECT count(*) FROM leader_sessions").await, 0, "{right}");
        database.execute(grant).await;
    }
    elector(&url).start().await.expect("started").shutdown().await.expect("shut down");
    database.execute("DROP OWNED BY limited").await;
}

#[tokio::test]
async fn a_user_that_may_not_create_is_shown_the_sql_on_mysql() {
    let database = TestDatabase::create(Kind::MySql).await;
    if !database.url.contains("://leader:") {
        return; // A server that was given: its users are not ours.
    }
    let name = database.url.rsplit('/').next().expect("a database").to_owned();
    database
        .execute(&format!(
            "CREATE USER IF NOT EXISTS limited@'%' IDENTIFIED BY 'secret'; GRANT SELECT ON `{name}`.* TO limited@'%'"
        ))
        .await;
    let url = as_role(&database, "limited");
    refused(elector(&url), &["denied", "CREATE TABLE IF NOT EXISTS leader_names", "grant the"]).await;
    database.execute(leader::tables::MYSQL).await;
    for table in ["leader_sessions", "leader_names"] {
        let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON `{name}`.{table} TO limited@'%'");
        database.execute(&grant).await;
    }
    for (right, table) in
        [("UPDATE", "leader_names"), ("UPDATE", "leader_sessions"), ("DELETE", "leader_sessions")]
    {
        database.execute(&format!("REVOKE {right} ON `{name}`.{table} FROM limited@'%'")).await;
        refused(
            elector(&url),
            &["denied", "grant the user SELECT, INSERT and UPDATE on both tables, and DELETE"],
        )
        .await;
        assert_eq!(database.number("SELECT count(*) FROM leader_sessions").await, 0, "{right} on {table}");
        database.execute(&format!("GRANT {right} ON `{name}`.{table} TO limited@'%'")).await;
    }
    elector(&url).start().await.expect("started").shutdown().await.expect("shut down");
}

#[tokio::test]
async fn without_migration_missing_tables_are_shown_as_sql() {
    for kind in Kind::ALL {
        let database = TestDatabase::create(kind).await;
        let words = ["creating them is turned off", "CREATE TABLE IF NOT EXISTS leader_sessions"];
        refused(elector(&database.url).migrate(false), &words).await;
        let tables = match kind {
            Kind::Postgres => leader::tables::POSTGRES,
            Kind::MySql => leader::tables::MYSQL,
            Kind::Sqlite => leader::tables::SQLITE,
        };
        database.execute(tables).await;
        if kind == Kind::Postgres {
            database.execute("GRANT ALL ON leader_sessions, leader_names TO PUBLIC").await;
        }
        let running = elector(&database.url).migrate(false).start().await.expect("started");
        running.shutdown().await.expect("shut down");
    }
}

#[tokio::test]
async fn a_read_only_server_is_refused() {
    let (database, _server) = TestDatabase::create_on_own_server(Kind::MySql).await;
    database.execute("SET GLOBAL read_only = 1").await;
    refused(elector(&database.url), &["read-only", "primary"]).await;
}

#[tokio::test]
async fn a_read_only_file_is_refused() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    database.execute("PRAGMA journal_mode = WAL; CREATE TABLE other (id INTEGER)").await;
    let file = database.url.split('?').next().expect("a URL");
    refused(elector(&format!("{file}?mode=ro")), &["give the process the right to write"]).await;
}

#[tokio::test]
async fn a_database_in_memory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("app.db").display().to_string();
    let options = sqlx::sqlite::SqliteConnectOptions::new();
    let elector_by = |options: sqlx::sqlite::SqliteConnectOptions| elector("sqlite:unused").database(options);
    for elector in [
        elector("sqlite::memory:"),
        elector(&format!("sqlite:{file}?mode=memory")),
        elector_by(options.clone().filename(&file).in_memory(true)),
        elector_by(options.clone().filename(format!("file:{file}?mode=memory&cache=shared"))),
        elector_by(options.clone().filename(&file).vfs("memdb")),
    ] {
        refused(elector, &["in memory", "give the elector a file"]).await;
    }
    assert_eq!(directory.path().read_dir().unwrap().count(), 0, "nothing is left of it");
}

#[tokio::test]
async fn a_file_of_utf_16_carries_works() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    database.execute("PRAGMA encoding = 'UTF-16'; CREATE TABLE written (what TEXT)").await;
    let led = Led::by(|events, puppet| {
        local::elector(&database.url, "first", events).namespace("it's").work("it's a work", puppet.work())
    });
    let led = led.await;
    let pool = sqlx::SqlitePool::connect(&database.url).await.unwrap();
    let mut tx = led.tenure.begin(&pool).await.unwrap();
    sqlx::query("INSERT INTO written VALUES ('this')").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM written").await, 1);
    led.running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_missing_is_refused() {
    refused(elector("sqlite:/nowhere/at/all.db"), &["unable to open database file", "`?mode=rwc`"]).await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_one_attempt() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let connections = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            open.push(socket);
        }
    });
    let timings = Timings { attempt: Some(Duration::from_millis(700)), ..Timings::default() };
    for scheme in ["postgres", "mysql"] {
        let begun = Instant::now();
        let url = format!("{scheme}://leader:secret@127.0.0.1:{port}/app");
        let error =
            refused(elector(&url).timings(timings), &["no answer", "can be reached from here", "127.0.0.1"])
                .await;
        assert!(matches!(error, Error::NoAnswer { .. }), "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "a password in: {error:?}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    connections.abort();
}

#[tokio::test]
async fn a_start_that_is_dropped_leaves_no_session_behind() {
    for kind in Kind::ALL {
        let database = TestDatabase::create(kind).await;
        elector(&database.url).start().await.expect("started").shutdown().await.expect("shut down");
        // A file has no way to it on which an answer could be held back.
        if kind != Kind::Sqlite {
            dropped_with_a_session(&database).await;
        }
        // Dropped at moments spread over what a start takes.
        for delay in 0..12_u64 {
            let start = elector(&database.url).start();
            let _ = tokio::time::timeout(Duration::from_millis(delay * 2), start).await;
        }
        no_session_is_left(&database).await;
    }
}

/// The session is open, and the start does not know yet.
async fn dropped_with_a_session(database: &TestDatabase) {
    let proxy = Proxy::to(database).await;
    proxy.each(To::Client, Statement::Open, Fate::Hold);
    let start = elector(proxy.url()).start();
    tokio::select! {
        started = start => panic!("it started without the answer: {started:?}"),
        _ = proxy.wait("an answer to hold back", |judged| judged.fate == Fate::Hold) => {}
    }
    assert_eq!(database.sessions().await.len(), 1);
    proxy.pass();
    no_session_is_left(database).await;
}

async fn no_session_is_left(database: &TestDatabase) {
    let what = format!("the end of the session of a start that was dropped, on {}", database.kind);
    eventually(&what, PATIENCE, async || database.sessions().await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_start_that_fails_runs_nothing() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let builder = elector(&database.url).work("mail", {
        let runs = Arc::clone(&runs);
        move |_| {
            runs.fetch_add(1, Ordering::Relaxed);
            async {}
        }
    });
    let error = refused(builder, &["the work `mail` is registered 2 times", "start.rs"]).await;
    assert!(matches!(error, Error::Registration(faults) if faults.len() == 1));
    let inconsistent = Timings { lease: Duration::from_secs(3), ..Timings::default() };
    refused(elector(&database.url).timings(inconsistent), &["deadline + margin < lease"]).await;
    refused(elector(&database.url).namespace(" padded"), &["namespace", "blank"]).await;
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    assert_eq!(
        database.number("SELECT count(*) FROM sqlite_master WHERE name LIKE 'leader_%'").await,
        0,
        "not even a table"
    );
}

/// The table is that of the compiler and of the columns, see `leader/src/name/cases.rs`.
#[tokio::test]
async fn every_bad_name_is_refused_in_one_answer() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let mut builder = elector(&database.url);
    let mut bad = Vec::new();
    for (text, times, verdict) in include!("../../leader/src/name/cases.rs") {
        let text = text.repeat(times);
        builder = builder.work(text.clone(), async |_: Tenure| {});
        if verdict != "good" {
            bad.push(text);
        }
    }
    let Err(Error::Registration(faults)) = builder.start().await else {
        panic!("bad names were let in");
    };
    let refused = faults.into_iter().map(|fault| match fault {
        Fault::Name { name, .. } => name,
        other => panic!("{other}"),
    });
    bad.sort();
    assert_eq!(refused.collect::<Vec<_>>(), bad);
}
