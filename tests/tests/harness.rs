//! The harness itself: servers start, break and leave nothing behind.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use leader_tests::harness::{Kind, Lock, PATIENCE, TestDatabase, eventually};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

async fn each_test_has_an_empty_database(kind: Kind) {
    let one = TestDatabase::create(kind).await;
    let other = one.sibling().await;
    assert_ne!(one.url, other.url);

    one.execute("CREATE TABLE probe (id integer)").await;
    one.execute("INSERT INTO probe VALUES (1), (2)").await;
    assert_eq!(one.number("SELECT count(*) FROM probe").await, 2);
    other.execute("CREATE TABLE probe (id integer)").await;
    assert_eq!(other.number("SELECT count(*) FROM probe").await, 0);
    assert_eq!(one.ledger().await, []);
}

#[tokio::test]
async fn postgres_gives_each_test_an_empty_database() {
    each_test_has_an_empty_database(Kind::Postgres).await;
}

#[tokio::test]
async fn mysql_gives_each_test_an_empty_database() {
    each_test_has_an_empty_database(Kind::MySql).await;
}

#[tokio::test]
async fn sqlite_gives_each_test_an_empty_database() {
    each_test_has_an_empty_database(Kind::Sqlite).await;
}

async fn a_server_is_killed_frozen_and_restarted(kind: Kind) {
    let (database, server) = TestDatabase::create_on_own_server(kind).await;
    database.execute("CREATE TABLE probe (id integer)").await;
    database.execute("INSERT INTO probe VALUES (1)").await;

    server.kill();
    assert!(server.administer("SELECT 1").await.is_err(), "a killed server answers");
    server.start().await;
    // The pool's connections died with the old process, and it may notice only when it uses one.
    let rows = eventually("the row that was committed", Duration::from_secs(20), async || {
        let count = database.try_number("SELECT count(*) FROM probe").await;
        count.ok()
    });
    assert_eq!(rows.await, 1);

    server.freeze();
    let frozen = tokio::time::timeout(Duration::from_millis(300), server.administer("SELECT 1")).await;
    assert!(frozen.is_err(), "a frozen server answers: {frozen:?}");
    server.wake();
    server.administer("SELECT 1").await.unwrap();

    server.shut_down();
    server.start().await;
    server.restart().await;

    let directory = server.directory().unwrap().to_owned();
    server.freeze();
    drop(server);
    assert_eq!(left_behind(&directory), Vec::<String>::new());
}

#[tokio::test]
async fn a_postgres_server_is_killed_frozen_and_restarted() {
    a_server_is_killed_frozen_and_restarted(Kind::Postgres).await;
}

#[tokio::test]
async fn a_mysql_server_is_killed_frozen_and_restarted() {
    a_server_is_killed_frozen_and_restarted(Kind::MySql).await;
}

async fn a_server_counts_what_it_is_asked(kind: Kind) {
    let (database, server) = TestDatabase::create_on_own_server(kind).await;
    database.execute("CREATE TABLE probe (id integer)").await;
    let before = server.statements().await;
    let overhead = server.statements().await - before;
    let before = server.statements().await;
    for _ in 0..10 {
        database.execute("INSERT INTO probe VALUES (1)").await;
    }
    let sent = server.statements().await - before - overhead;
    // The pool may open its second connection meanwhile, and on MariaDB that sends two statements: sqlx's and the level.
    assert!((10..=12).contains(&sent), "{sent}, with {overhead} for the question itself");
}

#[tokio::test]
async fn a_postgres_server_counts_what_it_is_asked() {
    a_server_counts_what_it_is_asked(Kind::Postgres).await;
}

#[tokio::test]
async fn a_mysql_server_counts_what_it_is_asked() {
    a_server_counts_what_it_is_asked(Kind::MySql).await;
}

#[tokio::test]
async fn a_lock_that_is_dropped_is_held_no_longer() {
    for kind in Kind::ALL {
        let database = TestDatabase::create(kind).await;
        database.execute("CREATE TABLE probe (id integer)").await;
        for _ in 0..3 {
            let lock = Lock::take(&database, "INSERT INTO probe VALUES (1)").await;
            drop(lock);
        }
        // It would wait for ever for who holds it still.
        let dropped = tokio::time::timeout(PATIENCE, database.execute("DROP TABLE probe"));
        dropped.await.unwrap_or_else(|_| panic!("held on {kind}"));
    }
}

#[tokio::test]
async fn the_owner_of_a_database_may_create_tables_and_nothing_else() {
    for kind in [Kind::Postgres, Kind::MySql] {
        let (database, server) = TestDatabase::create_on_own_server(kind).await;
        let another = server.create_database().await;
        let owner = |url: String, statement: &'static str| async move {
            if kind == Kind::Postgres {
                let pool = sqlx::PgPool::connect(&url).await?;
                sqlx::raw_sql(statement).execute(&pool).await.map(drop)
            } else {
                let pool = sqlx::MySqlPool::connect(&url).await?;
                sqlx::raw_sql(statement).execute(&pool).await.map(drop)
            }
        };
        owner(database.url.clone(), "CREATE TABLE probe (id integer)").await.unwrap();
        owner(server.url(&another), "CREATE TABLE probe (id integer)").await.unwrap();
        assert!(owner(database.url.clone(), "CREATE DATABASE forbidden").await.is_err());
        let wrong = database.url.replace(":secret@", ":wrong@");
        assert!(owner(wrong, "SELECT 1").await.is_err(), "{kind} takes any password");
    }
}

#[tokio::test]
async fn nothing_survives_a_killed_test_process() {
    let _machine = TestDatabase::create_alone(Kind::Sqlite).await;
    let mut process = Command::new(env!("CARGO_BIN_EXE_doomed"))
        .env_remove("LEADER_TEST_POSTGRES_URL")
        .env_remove("LEADER_TEST_MYSQL_URL")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().expect("both servers start");
    let mut words = line.split(' ');
    let child = Path::new("/proc").join(words.next().unwrap());
    let directories: Vec<_> = words.map(PathBuf::from).collect();
    assert_eq!(directories.len(), 2);
    // A child that nobody waits for any more may stay as a zombie, which has no command line.
    let runs = || std::fs::read(child.join("cmdline")).is_ok_and(|command| !command.is_empty());
    assert!(runs());
    for directory in &directories {
        assert!(!left_behind(directory).is_empty(), "{} is in use", directory.display());
    }
    process.kill().await.unwrap();

    eventually("the end of all that was started", Duration::from_secs(15), async || {
        let gone = directories.iter().all(|directory| left_behind(directory).is_empty());
        (gone && !runs()).then_some(())
    })
    .await;
}

/// The directory itself, and each process that names it or works in it.
fn left_behind(directory: &Path) -> Vec<String> {
    let name = directory.display().to_string();
    let mut left: Vec<_> = directory.exists().then(|| name.clone()).into_iter().collect();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let works_in = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        if command.contains(&name) || works_in.starts_with(directory) {
            left.push(command);
        }
    }
    left
}
