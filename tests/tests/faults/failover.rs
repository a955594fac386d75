//! The primary dies, and a standby is promoted.

use std::time::Duration;

use leader::{EventKind, TransactionError};
use leader_tests::harness::local::{Events, Puppet};
use leader_tests::harness::{Proxy, Server, Sql, TestDatabase, eventually};

use crate::{NAME, PATIENT, elector, scenarios, term};

// MariaDB's replication is another matter, and what must hold here depends on the tables alone.
scenarios!(postgres:
    a_standby_that_misses_nothing,
    a_standby_that_misses_the_last_claim,
    a_standby_is_refused_at_start,
);

/// It is as good as a restart.
async fn a_standby_that_misses_nothing<DB: Sql>() {
    let mut stage = Stage::set::<DB>().await;
    let tenure = stage.puppet.tenure().await;
    replicated(&stage.replica, tenure.term().get()).await;
    stage.fail_over().await;
    let pool = DB::pool_to(stage.proxy.url(), 1);
    tenure.begin(&pool).await.unwrap().commit().await.unwrap();
    tokio::time::sleep(PATIENT.renew * 4).await;
    tenure.check().unwrap();
    assert_eq!(stage.events.count(EventKind::Lost), 0, "{:?}", stage.events);
}

/// The new primary does not know of the tenure. It writes nothing there, it ends, and what follows has a larger term.
async fn a_standby_that_misses_the_last_claim<DB: Sql>() {
    let mut stage = Stage::set::<DB>().await;
    let known = stage.puppet.tenure().await;
    replicated(&stage.replica, known.term().get()).await;
    stage.standby.fall_behind().await;
    let of = stage.electors.iter().find(|elector| elector.status().instance.as_ref() == known.instance());
    of.unwrap().step_down(NAME).await.unwrap();
    let missed = stage.puppet.tenure().await;
    assert!(missed.term() > known.term());
    assert_eq!(term(&stage.replica).await, known.term().get(), "the standby misses it");

    stage.fail_over().await;
    let pool = DB::pool_to(stage.proxy.url(), 1);
    let refused = missed.begin(&pool).await.map(drop);
    assert!(matches!(refused, Err(TransactionError::Ended(_))), "{refused:?}");
    stage.events.of(EventKind::Lost, &missed).await;
    let next = stage.puppet.tenure().await;
    assert!(next.term() > missed.term());
    next.begin(&pool).await.unwrap().commit().await.unwrap();
    tokio::time::sleep(PATIENT.renew * 4).await;
    next.check().unwrap();
    assert_eq!(stage.events.count(EventKind::Lost), 1, "{:?}", stage.events);
}

/// It cannot be written to.
async fn a_standby_is_refused_at_start<DB: Sql>() {
    let stage = Stage::set::<DB>().await;
    replicated(&stage.replica, term(&stage.replica).await).await;
    let refused = elector(&stage.replica.url, "third", &Events::default())
        .work(NAME, Puppet::default().work())
        .start()
        .await
        .expect_err("refused");
    let said = format!("{refused:?}");
    assert!(
        said.contains("the server is a standby") && said.contains("give the address of the primary"),
        "{said}"
    );
}

/// Two electors on a primary with a standby, by a way that can be switched over.
struct Stage {
    events: Events,
    puppet: Puppet,
    electors: Vec<leader::Running>,
    proxy: Proxy,
    replica: TestDatabase,
    standby: Server,
    primary: Server,
    _database: TestDatabase,
}

impl Stage {
    async fn set<DB: Sql>() -> Self {
        let (database, primary) = TestDatabase::create_to_wait_on_own_server(DB::KIND).await;
        let standby = primary.standby().await;
        let replica = database.on_standby(&standby);
        let proxy = Proxy::to(&database).await;
        let (events, puppet) = (Events::default(), Puppet::default());
        let mut electors = Vec::new();
        for instance in ["first", "second"] {
            let elector = elector(proxy.url(), instance, &events).timings(PATIENT);
            electors.push(elector.work(NAME, puppet.work()).start().await.unwrap());
        }
        Self { events, puppet, electors, proxy, replica, standby, primary, _database: database }
    }

    async fn fail_over(&self) {
        self.primary.kill();
        self.standby.promote().await;
        self.proxy.switch_to(&self.replica);
    }
}

/// Waits until the standby knows of this term, and of both sessions.
async fn replicated(replica: &TestDatabase, of: i64) {
    const SESSIONS: &str = "SELECT count(*) FROM leader_sessions";

    let there = async || {
        let known = replica.try_number("SELECT max(term) FROM leader_names").await;
        let sessions = replica.try_number(SESSIONS).await;
        (known.is_ok_and(|known| known == of) && sessions.is_ok_and(|sessions| sessions == 2)).then_some(())
    };
    eventually("the standby to follow", Duration::from_secs(20), there).await;
}
