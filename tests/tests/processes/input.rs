//! Bad input ends the start at once, and the message names the cause.

use std::time::{Duration, Instant};

use leader_tests::harness::{Kind, Launch, Server, TestDatabase};

use crate::{bare, default_timings, launch, scenarios};

scenarios!(servers: a_wrong_password, an_unreachable_server);

async fn a_wrong_password(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    if Server::shared(kind).await.directory().is_none() {
        // Whether a server that was given asks for a password is not ours to say.
        return;
    }
    let url = database.url.replace(":secret@", ":wrong@");
    assert_ne!(url, database.url);
    let cause = if kind == Kind::Postgres { "password authentication failed" } else { "access denied" };
    fails(launch(&url).work("mail", "idle"), &[cause]).await;
}

async fn an_unreachable_server(kind: Kind) {
    let scheme = if kind == Kind::Postgres { "postgres" } else { "mysql" };
    let url = format!("{scheme}://leader:secret@127.0.0.1:1/leader");
    fails(launch(&url).work("mail", "idle"), &["connection refused"]).await;
}

#[tokio::test]
async fn a_directory_that_does_not_exist() {
    fails(launch("sqlite:///no/such/directory/leader.db?mode=rwc").work("mail", "idle"), &["unable to open"])
        .await;
}

#[tokio::test]
async fn a_url_that_is_none() {
    fails(launch("leader.db").work("mail", "idle"), &["url"]).await;
    fails(launch("").work("mail", "idle"), &["url"]).await;
}

#[tokio::test]
async fn a_port_that_is_none() {
    fails(launch("postgres://leader@127.0.0.1:port/leader").work("mail", "idle"), &["port"]).await;
}

#[tokio::test]
async fn a_database_that_carries_no_lease() {
    let url = "clickhouse://127.0.0.1:8123/default";
    let causes = ["clickhouse", "mail", "postgresql", "mysql", "sqlite"];
    fails(launch(url).work("mail", "idle"), &causes).await;
}

#[tokio::test]
async fn a_database_that_carries_no_lease_and_no_work() {
    let replica = launch("clickhouse://127.0.0.1:8123/default").start();
    replica.wait("the start", |event| event.is("started")).await;
    replica.term();
    assert_eq!(replica.wait_exit().await, Some(0), "{replica}");
}

#[tokio::test]
async fn timings_that_cannot_hold() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let cases: [(_, &[_]); 3] = [
        (
            "lease=3s,renew=400ms,deadline=3s,grace=700ms,margin=200ms,campaign=1s",
            &["deadline", "margin", "lease"],
        ),
        (
            "lease=3s,renew=1500ms,deadline=2s,grace=700ms,margin=200ms,campaign=1s",
            &["renew", "attempt", "deadline"],
        ),
        ("lease=3s,renew=0s,deadline=2s,grace=700ms,margin=200ms,campaign=1s", &["renew"]),
    ];
    for (timings, causes) in cases {
        let launch = default_timings(&database).flag("--timings", timings);
        fails(launch.work("mail", "idle"), causes).await;
    }
}

#[tokio::test]
async fn two_works_of_one_name() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    fails(
        launch(&database.url).work("mail", "idle").work("mail", "ledger"),
        &["`mail` is registered 2 times"],
    )
    .await;
}

#[tokio::test]
async fn a_name_that_does_not_fit() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    fails(launch(&database.url).work(&"n".repeat(192), "idle"), &["192", "191"]).await;
}

#[tokio::test]
async fn malformed_flags() {
    let url = ["--database-url", "sqlite::memory:"];
    for (flag, value, cause) in [
        ("--work", "mail", "NAME=KIND"),
        ("--work", "mail=juggle", "slow-stop"),
        ("--timings", "lease", "NAME=DURATION"),
        ("--timings", "lease=3", "no duration"),
        ("--timings", "leese=3s", "no timing `leese`"),
        ("--every", "soon", "--every"),
        ("--app-pool", "0", "--app-pool"),
        ("--worker-threads", "0", "at least 1"),
    ] {
        let replica = bare().flag(url[0], url[1]).flag(flag, value).start();
        assert_eq!(replica.wait_exit().await, Some(2), "{flag} {value}: {replica}");
        assert!(replica.log().contains(cause), "{flag} {value} without `{cause}`: {replica}");
    }
}

/// Exit status 1 within a few seconds, no start, and each of these words in what it says.
async fn fails(launch: Launch, causes: &[&str]) {
    let begun = Instant::now();
    let replica = launch.start();
    assert_eq!(replica.wait_exit().await, Some(1), "{replica}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}: {replica}", begun.elapsed());
    assert_eq!(replica.events(), [], "{replica}");
    let log = replica.log().to_lowercase();
    let said = log.lines().rev().take_while(|line| !line.starts_with("error: ")).count();
    let said = log.lines().rev().take(said + 1).collect::<String>();
    for cause in causes {
        assert!(said.contains(cause), "the message does not say `{cause}`: {replica}");
    }
}
