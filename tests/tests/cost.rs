//! What replicas cost their database.

use std::path::PathBuf;
use std::time::Duration;

use leader::test_util::{AnyStore, SessionId, Store, store};
use leader::{EventKind, Timings, WorkName};
use leader_tests::harness::local::{Events, FAST, Puppet, elector};
use leader_tests::harness::{Kind, PATIENCE, Server, TestDatabase, eventually};

const NAME: &str = "mail";

/// A session that outlives the test without being renewed.
async fn open(database: &TestDatabase, id: SessionId) -> AnyStore {
    let names = [WorkName::new(NAME).expect("a good name")];
    let mut store = store(&database.url, "default", "by hand", Duration::from_mins(10)).expect("a good URL");
    store.prepare(true).await.expect("the tables can be made");
    store.ensure(&names).await.expect("the name can be given a row");
    store.open(id).await.expect("a session can be opened");
    store
}

/// No index is on the column that a renewal writes, and there is room on the page: PostgreSQL has nothing else to
/// update, and cleans up behind itself.
#[tokio::test]
async fn ten_thousand_renewals_leave_nothing_behind_on_postgres() {
    const SESSIONS: u32 = 5;
    const RENEWALS: u32 = 2_000;

    let database = TestDatabase::create(Kind::Postgres).await;
    let renew = async |number| {
        let id = SessionId::new(u128::from(number));
        let mut store = open(&database, id).await;
        for _ in 0..RENEWALS {
            store.renew(id).await.expect("answered").expect("the session is there");
        }
    };
    futures::future::join_all((0..SESSIONS).map(renew)).await;

    let count = async |column: &str| {
        let sessions = "FROM pg_stat_user_tables WHERE relname = 'leader_sessions'";
        database.number(&format!("SELECT {column} {sessions}")).await
    };
    let all = i64::from(SESSIONS * RENEWALS);
    let updates = async || (count("n_tup_upd").await >= all).then_some(());
    eventually("the statistics of every renewal", PATIENCE, updates).await;
    let hot = count("n_tup_hot_upd").await;
    assert!(hot * 100 >= all * 95, "{hot} of {all} renewals were HOT updates");
    let pages = database.number("SELECT pg_relation_size('leader_sessions') / 8192").await;
    // All versions together would fill 150. One that is interrupted half-way keeps the others' from being cleaned up meanwhile.
    assert!(pages <= 40, "{pages} pages for {SESSIONS} sessions");
}

#[tokio::test]
async fn an_idle_standby_writes_nothing_but_its_session_on_postgres() {
    an_idle_standby_writes_nothing_but_its_session(Kind::Postgres).await;
}

#[tokio::test]
async fn an_idle_standby_writes_nothing_but_its_session_on_mysql() {
    an_idle_standby_writes_nothing_but_its_session(Kind::MySql).await;
}

async fn an_idle_standby_writes_nothing_but_its_session(kind: Kind) {
    let (database, server) = TestDatabase::create_to_wait_on_own_server(kind).await;
    // Somebody leads, and sends nothing.
    let id = SessionId::new(1);
    let mut leader = open(&database, id).await;
    let won = leader.claim(id, &[WorkName::new(NAME).expect("a good name")], &[]).await.expect("answered");
    assert_eq!(won.len(), 1);
    leader.hang_up();

    let log = Log::of(&server, &database).await;
    let (events, puppet) = (Events::default(), Puppet::default());
    let standby = elector(&database.url, "standby", &events).work(NAME, puppet.work());
    let timings = Timings { look: Duration::from_millis(500), ..FAST };
    let standby = standby.timings(timings).start().await.expect("it starts");
    // It has looked for a pooler by then.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let before = log.statements().await.len();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let sent = log.statements().await.split_off(before);
    standby.shutdown().await.expect("it stops");

    let (writing, reading): (Vec<_>, Vec<_>) = sent.iter().partition(|message| writes(message) > 0);
    for message in &writing {
        assert!(writes(message) == 1 && message.contains("update leader_sessions "), "{message}");
    }
    let renewals = writing.len();
    let due = 3_000 / usize::try_from(FAST.renew.as_millis()).expect("small");
    assert!((due / 2..=due + 1).contains(&renewals), "{renewals} renewals, and {due} are right: {sent:#?}");
    let looked = reading.iter().filter(|message| looks(message)).count();
    // On PostgreSQL at the campaign interval, and by chance a little less often.
    let due = 6;
    assert!(
        (due / 3..=due + 1).contains(&looked),
        "it looked {looked} times, and {due} are right: {reading:#?}"
    );
    assert_eq!(events.count(EventKind::Elected), 0);
}

/// An announcement says which name to try. It is believed no further: one that somebody made up costs a claim that takes
/// nothing.
#[tokio::test]
async fn what_is_given_back_is_claimed_without_a_look_on_postgres() {
    let (database, server) = TestDatabase::create_to_wait_on_own_server(Kind::Postgres).await;
    let id = SessionId::new(1);
    let mut leader = open(&database, id).await;
    let name = WorkName::new(NAME).expect("a good name");
    let held = leader.claim(id, std::slice::from_ref(&name), &[]).await.expect("answered");
    assert_eq!(held.len(), 1);

    let log = Log::of(&server, &database).await;
    let (events, puppet) = (Events::default(), Puppet::default());
    let standby = elector(&database.url, "standby", &events).work(NAME, puppet.work());
    // So long that it looks by itself at the start alone.
    let standby = standby.timings(Timings { campaign: Duration::from_mins(10), ..FAST });
    let standby = standby.start().await.expect("it starts");
    let listens = async || {
        let all = log.statements().await;
        let channel =
            all.iter().find_map(|message| Some(message.split_once("listen \"leader_")?.1.to_owned()))?;
        // It looks once more when it listens.
        let looks =
            all.iter().rev().take_while(|message| !message.contains("listen ")).filter(|m| looks(m)).count();
        (looks > 0).then(|| channel[..16].to_owned())
    };
    let channel = eventually("a standby that listens", PATIENCE, listens).await;

    let before = log.statements().await.len();
    database.execute(&format!("SELECT pg_notify('leader_{channel}', '{NAME}')")).await;
    let tried = async || log.statements().await[before..].iter().any(|message| claims(message)).then_some(());
    eventually("a claim", PATIENCE, tried).await;
    assert_eq!(database.names().await[0].session_id.as_deref(), Some(id.to_string().as_str()));

    // Another may have been faster, for all it knows, and so it looks once.
    let looked = async || log.statements().await[before..].iter().any(|message| looks(message)).then_some(());
    eventually("a look", PATIENCE, looked).await;
    let before = log.statements().await.len();
    leader.release(id, &held).await.expect("answered");
    events.wait("the election", |seen| seen.is(EventKind::Elected)).await;
    let sent = log.statements().await.split_off(before);
    assert!(sent.iter().any(|message| claims(message)), "{sent:#?}");
    assert!(!sent.iter().any(|message| looks(message)), "{sent:#?}");
    standby.shutdown().await.expect("it stops");
}

fn claims(message: &str) -> bool {
    message.contains("elected_at_ms = ")
}

/// Whether a message is a scan.
fn looks(message: &str) -> bool {
    message.contains("union all")
}

/// How many statements of a message write.
fn writes(message: &str) -> usize {
    let words = ["insert ", "update ", "delete ", "replace ", "create ", "alter ", "truncate "];
    words.iter().map(|word| message.matches(word).count()).sum()
}

/// Every statement that a server was sent by the role of the application, in lower case.
enum Log<'d> {
    /// The server's own log, where statements go by themselves.
    File(PathBuf),
    Table(&'d TestDatabase),
}

impl<'d> Log<'d> {
    async fn of(server: &Server, database: &'d TestDatabase) -> Self {
        match database.kind {
            Kind::MySql => {
                for statement in ["SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = 1"] {
                    server.administer(statement).await.expect("the administrator may");
                }
                Self::Table(database)
            }
            _ => Self::File(server.directory().expect("a server of the test's own").join("log")),
        }
    }

    async fn statements(&self) -> Vec<String> {
        let statements = match self {
            Self::File(path) => {
                let log = std::fs::read(path).expect("the log can be read");
                let log = String::from_utf8_lossy(&log).replace("\n\t", " ");
                log.lines().filter(|line| line.contains("LOG:  ")).map(str::to_lowercase).collect()
            }
            Self::Table(database) => {
                let log = "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log \
                     WHERE user_host LIKE 'leader%' AND command_type IN ('Query', 'Execute') ORDER BY event_time";
                let pool = database.mysql().expect("its pool");
                sqlx::query_scalar(log).fetch_all(pool).await.expect("the log can be read")
            }
        };
        statements.into_iter().map(|statement: String| statement.to_lowercase()).collect()
    }
}
