//! The harness itself: servers start, break and leave nothing behind.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leader_tests::harness::{Kind, Server, TestDatabase, eventually};

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
    assert!(
        server.administer("SELECT 1").await.is_err(),
        "a killed server answers"
    );
    server.start().await;
    // The pool's connections died with the old process, and it may notice only when it uses one.
    let rows = eventually(
        "the row that was committed",
        Duration::from_secs(20),
        async || {
            let count = database.try_number("SELECT count(*) FROM probe").await;
            count.ok()
        },
    );
    assert_eq!(rows.await, 1);

    server.stop();
    let frozen =
        tokio::time::timeout(Duration::from_millis(300), server.administer("SELECT 1")).await;
    assert!(frozen.is_err(), "a frozen server answers: {frozen:?}");
    server.cont();
    server.administer("SELECT 1").await.unwrap();

    server.shut_down();
    server.start().await;
    server.restart().await;

    let directory = server.directory().unwrap().to_owned();
    server.stop();
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
    // The pool may open its second connection meanwhile, and on MariaDB that sends a statement.
    assert!(
        (10..=11).contains(&sent),
        "{sent}, with {overhead} for the question itself"
    );
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
        owner(database.url.clone(), "CREATE TABLE probe (id integer)")
            .await
            .unwrap();
        owner(server.url(&another), "CREATE TABLE probe (id integer)")
            .await
            .unwrap();
        assert!(
            owner(database.url.clone(), "CREATE DATABASE forbidden")
                .await
                .is_err()
        );
        let wrong = database.url.replace(":secret@", ":wrong@");
        assert!(
            owner(wrong, "SELECT 1").await.is_err(),
            "{kind} takes any password"
        );
    }
}

/// Not a test: what the next one starts as a process of its own, to kill it.
#[tokio::test]
#[ignore = "started by `nothing_survives_a_killed_test_process`"]
async fn a_test_process_that_is_killed() {
    let mut directories = Vec::new();
    for kind in [Kind::Postgres, Kind::MySql] {
        let server = Server::shared(kind).await;
        directories.push(server.directory().unwrap().display().to_string());
    }
    println!("\nDIRECTORIES {}", directories.join(" "));
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn nothing_survives_a_killed_test_process() {
    let _machine = TestDatabase::create_alone(Kind::Sqlite).await;
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([
            "a_test_process_that_is_killed",
            "--ignored",
            "--exact",
            "--nocapture",
        ])
        .env_remove("LEADER_TEST_POSTGRES_URL")
        .env_remove("LEADER_TEST_MYSQL_URL")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = lines
        .map_while(Result::ok)
        .find(|line| line.starts_with("DIRECTORIES "));
    let line = line.expect("both servers start");
    let directories: Vec<_> = line.split(' ').skip(1).map(PathBuf::from).collect();
    for directory in &directories {
        assert!(
            !left_behind(directory).is_empty(),
            "{} is in use",
            directory.display()
        );
    }
    process.kill().unwrap();
    process.wait().unwrap();

    let killed = Instant::now();
    for directory in &directories {
        while !left_behind(directory).is_empty() {
            let left = left_behind(directory);
            assert!(
                killed.elapsed() < Duration::from_secs(15),
                "left behind: {left:#?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The directory itself, and each process that names it or works in it.
fn left_behind(directory: &Path) -> Vec<String> {
    let name = directory.display().to_string();
    let mut left: Vec<_> = directory
        .exists()
        .then(|| name.clone())
        .into_iter()
        .collect();
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
