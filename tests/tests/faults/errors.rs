//! Statements that fail in passing, every second of them, or wait for a lock: that is no loss, and no fence is fooled.

use std::collections::HashSet;
use std::sync::Mutex;

use fastrand::Rng;
use leader::{EventKind, TransactionError};
use leader_tests::harness::local::{Events, Puppet, SLEEPY};
use leader_tests::harness::proxy::Judged;
use leader_tests::harness::{Fate, Kind, PATIENCE, Sql, Statement, TestDatabase, To, any_seed, eventually};
use sqlx::Connection;
use tokio::time::Instant;

use crate::{NAME, TIMINGS, behind_a_proxy, elector, lead, lead_with, scenarios};

scenarios!(postgres: serialization_failures, deadlocks, locks_that_are_not_available);
scenarios!(mysql: deadlocks_1213, lock_waits_1205, changes_1020);
scenarios!(servers:
    half_of_all_queries,
    a_fence_after_a_lock_wait_sees_the_present,
    a_fence_with_an_old_snapshot_after_a_lock_wait,
);

async fn serialization_failures<DB: Sql>() {
    elections_go_on::<DB>("40001").await;
}

async fn deadlocks<DB: Sql>() {
    elections_go_on::<DB>("40P01").await;
}

async fn locks_that_are_not_available<DB: Sql>() {
    elections_go_on::<DB>("55P03").await;
}

async fn deadlocks_1213<DB: Sql>() {
    elections_go_on::<DB>("1213").await;
}

async fn lock_waits_1205<DB: Sql>() {
    elections_go_on::<DB>("1205").await;
}

async fn changes_1020<DB: Sql>() {
    elections_go_on::<DB>("1020").await;
}

async fn elections_go_on<DB: Sql>(code: &str) {
    let database = TestDatabase::create_to_wait(DB::KIND).await;
    // The tables and the rows of the names.
    lead(&database.url, "before").await.running.shutdown().await.unwrap();
    let pool = DB::pool(&database, 2);
    let mut connection = pool.acquire().await.unwrap();
    for statement in every_second_fails(DB::KIND, code) {
        DB::run(&mut connection, &statement).await.unwrap();
    }

    let (first, second) = (Events::default(), Events::default());
    let mut puppet = Puppet::default();
    let mut electors = Vec::new();
    for (instance, events) in [("first", &first), ("second", &second)] {
        let elector = elector(&database.url, instance, events).work(NAME, puppet.work());
        // The first statement of a start may be one of those that fail.
        electors.push(elector.start().await.unwrap());
    }
    let mut last = 0;
    for _ in 0..2 {
        let tenure = puppet.tenure().await;
        assert!(tenure.term().get() > last);
        last = tenure.term().get();
        let until = Instant::now() + TIMINGS.lease;
        while Instant::now() < until {
            tokio::time::sleep(TIMINGS.renew / 2).await;
            tenure.begin(&pool).await.unwrap().commit().await.unwrap();
        }
        let of = electors.iter().find(|elector| elector.status().instance.as_ref() == tenure.instance());
        of.unwrap().step_down(NAME).await.unwrap();
    }
    for events in [first, second] {
        assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
    }
    let statements = match DB::KIND {
        Kind::Postgres => "SELECT last_value FROM beat",
        _ => "SELECT next_not_cached_value FROM beat",
    };
    let statements = DB::number(&mut connection, statements).await.unwrap();
    assert!(statements > 20, "every second one of only {statements} statements failed");
}

/// Of everybody: renewals, scans, claims, releases, fences and commits, with any of the errors.
async fn half_of_all_queries<DB: Sql>() {
    use Statement::{Claim, Commit, Fence, Release, Renew, Scan};

    let seed = any_seed();
    println!("LEADER_TEST_SEED={seed}");
    let (_database, proxy) = behind_a_proxy::<DB>().await;
    let codes = match DB::KIND {
        Kind::Postgres => ["40001", "40P01", "55P03"],
        _ => ["1213", "1205", "1020"],
    };
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let mut electors = Vec::new();
    for instance in ["first", "second"] {
        let elector = elector(proxy.url(), instance, &events).work(NAME, puppet.work());
        electors.push(elector.start().await.unwrap());
    }
    let (tried, dice) = (Mutex::new(HashSet::new()), Mutex::new(Rng::with_seed(seed)));
    proxy.rule(move |message| {
        if !message.is_plain {
            return Fate::Pass;
        }
        let of_keeper = matches!(message.statement, Renew | Scan | Claim | Release);
        // Dialling anew does not help.
        let first = of_keeper && tried.lock().unwrap().insert((message.connection, message.statement));
        let mut dice = dice.lock().unwrap();
        if first || dice.bool() { Fate::Fail(codes[dice.usize(..codes.len())]) } else { Fate::Pass }
    });
    let pool = DB::pool_to(proxy.url(), 2);
    let mut last = 0;
    for _ in 0..2 {
        let tenure = puppet.tenure().await;
        assert!(tenure.term().get() > last);
        last = tenure.term().get();
        let until = Instant::now() + TIMINGS.lease;
        let (mut committed, mut failed) = (0, 0);
        while Instant::now() < until {
            tokio::time::sleep(TIMINGS.renew / 50).await;
            let transaction = async { tenure.begin(&pool).await?.commit().await };
            match transaction.await {
                Ok(()) => committed += 1,
                Err(TransactionError::Ended(ending)) => panic!("{ending:?}: {events:?}"),
                Err(_) => failed += 1,
            }
        }
        assert!(committed > 0 && failed > 0, "{committed} committed, {failed} failed");
        let of = electors.iter().find(|elector| elector.status().instance.as_ref() == tenure.instance());
        of.unwrap().step_down(NAME).await.unwrap();
    }
    assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
    for statement in [Renew, Scan, Claim, Release, Fence, Commit] {
        let fails = |judged: &Judged| {
            judged.message.is(To::Server, statement) && matches!(judged.fate, Fate::Fail(_))
        };
        assert!(proxy.judged().iter().any(fails), "no {statement:?} failed");
    }
}

/// Each statement counts, also one that fails: sequences know of no transaction.
fn every_second_fails(kind: Kind, code: &str) -> Vec<String> {
    if kind == Kind::Postgres {
        let function = format!(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF nextval('beat') % 2 = 0 THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = '{code}'; END IF; \
             RETURN NULL; END $$"
        );
        let trigger = |table: &str| {
            format!(
                "CREATE TRIGGER fail AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION fail()"
            )
        };
        return vec![
            "CREATE SEQUENCE beat".to_owned(),
            function,
            trigger("leader_sessions"),
            trigger("leader_names"),
        ];
    }
    // A claim counts once here: it is an insert that becomes an update.
    let trigger = |(number, change): (usize, &str)| {
        format!(
            "CREATE TRIGGER fail_{number} BEFORE {change} FOR EACH ROW BEGIN \
             IF NEXTVAL(beat) % 2 = 0 THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'on purpose'; \
             END IF; END"
        )
    };
    let all = [
        "INSERT ON leader_sessions",
        "UPDATE ON leader_sessions",
        "DELETE ON leader_sessions",
        "UPDATE ON leader_names",
    ];
    let sequence = "CREATE SEQUENCE beat NOCACHE".to_owned();
    std::iter::once(sequence).chain(all.into_iter().enumerate().map(trigger)).collect()
}

async fn a_fence_after_a_lock_wait_sees_the_present<DB: Sql>() {
    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let led = lead_with(SLEEPY, &database.url, "first").await;
    let pool = DB::pool(&database, 2);
    let mut other = pool.acquire().await.unwrap();

    // Nothing has changed when the wait is over.
    DB::run(&mut other, "BEGIN; UPDATE leader_names SET elected_at_ms = 0").await.unwrap();
    let (begun, ()) = tokio::join!(led.tenure.begin(&pool), once_waited_for::<DB>(&database, &mut other));
    begun.unwrap().commit().await.unwrap();

    let overtaken =
        "UPDATE leader_names SET term = term + 1, session_id = 'ffffffffffffffffffffffffffffffff'";
    DB::run(&mut other, &format!("BEGIN; {overtaken}")).await.unwrap();
    let again = async { led.tenure.begin(&pool).await.map(drop) };
    let (refused, ()) = tokio::join!(again, once_waited_for::<DB>(&database, &mut other));
    assert!(matches!(refused, Err(TransactionError::Ended(_))), "{refused:?}");
}

/// The same for a transaction of the user's own, whose snapshot is older than the wait.
async fn a_fence_with_an_old_snapshot_after_a_lock_wait<DB: Sql>() {
    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let led = lead_with(SLEEPY, &database.url, "first").await;
    let pool = DB::pool(&database, 2);
    let mut other = pool.acquire().await.unwrap();
    let mut mine = pool.acquire().await.unwrap();
    let level = match DB::KIND {
        Kind::Postgres => "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        _ => "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    };
    DB::run(&mut mine, level).await.unwrap();
    let mut tx = mine.begin().await.unwrap();
    DB::number(&mut tx, "SELECT count(*) FROM leader_names").await.unwrap();
    let overtaken =
        "UPDATE leader_names SET term = term + 1, session_id = 'ffffffffffffffffffffffffffffffff'";
    DB::run(&mut other, &format!("BEGIN; {overtaken}")).await.unwrap();
    let (refused, ()) = tokio::join!(led.tenure.fence(&mut tx), once_waited_for::<DB>(&database, &mut other));
    assert!(
        matches!(refused, Err(TransactionError::Ended(_) | TransactionError::Conflict(_))),
        "{refused:?}"
    );
}

/// Commits when somebody waits for its locks.
async fn once_waited_for<DB: Sql>(database: &TestDatabase, connection: &mut DB::Connection) {
    let waits = async || (database.lock_waits().await > 0).then_some(());
    eventually("somebody who waits", PATIENCE, waits).await;
    DB::run(connection, "COMMIT").await.unwrap();
}
