//! A holder that has not noticed that it leads no more is refused by the database.

use std::time::Duration;

use leader::{Ending, EventKind, Tenure, TransactionError};
use leader_tests::harness::local::{Events, Puppet, SLEEPY};
use leader_tests::harness::{Sql, any_seed};
use sqlx::Pool;
use tokio::time::Instant;

use crate::{Led, NAME, Stage, row, scenarios};

scenarios!(every database:
    a_stale_holder_is_refused,
    a_stale_term_is_refused,
    a_stale_session_is_refused,
    terms_never_interleave,
);

impl<DB: Sql> Stage<DB> {
    /// A tenure that does not notice for a while what happens to it.
    pub(crate) async fn sleepy(&self) -> Led {
        let sleepy = self.lead_with(|builder| builder.timings(SLEEPY)).await;
        sleepy.puppet.stay();
        sleepy
    }

    /// Takes the name from it.
    pub(crate) async fn overtake(&self, sleepy: &Led) -> Led {
        let (events, mut puppet) = (Events::default(), Puppet::default());
        let awake = self.elector("second", &events).work(NAME, puppet.work());
        let running = awake.start().await.unwrap();
        self.rob("first").await;
        let tenure = puppet.tenure().await;
        assert!(tenure.term() > sleepy.tenure.term());
        assert!(sleepy.tenure.check().is_ok(), "it has not noticed");
        Led { events, running, puppet, tenure }
    }

    pub(crate) async fn overtaken(&self) -> (Led, Led) {
        let sleepy = self.sleepy().await;
        let awake = self.overtake(&sleepy).await;
        (sleepy, awake)
    }
}

/// How soon a refusal must come. Its database answers, so it is a matter of round trips; and on SQLite the successor
/// cannot renew meanwhile.
pub(crate) const REFUSED_WITHIN: Duration = Duration::from_millis(700);

async fn a_stale_holder_is_refused<DB: Sql>(stage: Stage<DB>) {
    let (sleepy, awake) = stage.overtaken().await;
    let pool = stage.pool(1);
    let asked = Instant::now();
    let refused = sleepy.tenure.begin(&pool).await.expect_err("a refusal");
    assert!(matches!(&refused, TransactionError::Ended(_)), "{refused:?} {:?}", sleepy.events);
    assert!(asked.elapsed() < REFUSED_WITHIN, "refused after {:?}", asked.elapsed());
    // Whoever is refused has been told.
    assert!(sleepy.tenure.ending().is_some());
    stage.is_free().await;
    assert_eq!(awake.events.count(EventKind::Lost), 0, "{:?}", awake.events);

    let mut tx = awake.tenure.begin(&pool).await.unwrap();
    DB::run(&mut tx, &row(&awake.tenure, 1)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(stage.written().await, 1);
    sleepy.puppet.obey();
}

/// The session lives on, but the name has another term: an operator was here. Session and term are both compared.
async fn a_stale_term_is_refused<DB: Sql>(stage: Stage<DB>) {
    refused_after_a_change(&stage, "term = term + 1").await;
}

async fn a_stale_session_is_refused<DB: Sql>(stage: Stage<DB>) {
    refused_after_a_change(&stage, "session_id = 'ffffffffffffffffffffffffffffffff'").await;
}

async fn refused_after_a_change<DB: Sql>(stage: &Stage<DB>, change: &str) {
    let sleepy = stage.sleepy().await;
    let pool = stage.pool(1);
    stage.run(&format!("UPDATE leader_names SET {change}")).await;
    assert!(sleepy.tenure.check().is_ok(), "it has not noticed");
    let asked = Instant::now();
    let refused = sleepy.tenure.begin(&pool).await.expect_err("a refusal");
    assert!(
        matches!(&refused, TransactionError::Ended(ended) if ended.ending() == Ending::LeaseLost),
        "{refused:?}"
    );
    assert!(asked.elapsed() < REFUSED_WITHIN, "refused after {:?}", asked.elapsed());
    stage.is_free().await;
}

/// Two holders write at full speed while sessions are deleted under them: no row of an older term comes after one of a
/// newer.
async fn terms_never_interleave<DB: Sql>(stage: Stage<DB>) {
    let seed = any_seed();
    println!("LEADER_TEST_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let events = Events::default();
    let mut electors = Vec::new();
    for instance in ["first", "second"] {
        let pool = stage.pool(2);
        let work = move |tenure: Tenure| {
            let pool = pool.clone();
            async move { write::<DB>(tenure, pool).await }
        };
        let timings = leader::Timings {
            // Losses are noticed late, so that the fence has to refuse.
            renew: Duration::from_millis(500),
            campaign: Duration::from_millis(100),
            ..leader_tests::harness::local::FAST
        };
        let elector = stage.elector(instance, &events).timings(timings);
        electors.push(elector.work(NAME, work).start().await.unwrap());
    }
    let until = Instant::now() + Duration::from_secs(6);
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(rng.u64(200..900))).await;
        stage.database.delete_sessions_of(rng.choice(["first", "second"]).unwrap()).await;
    }
    for elector in electors {
        elector.shutdown().await.unwrap();
    }
    let falls = "SELECT count(*) FROM written a JOIN written b ON b.id > a.id WHERE b.term < a.term";
    assert_eq!(stage.number(falls).await, 0, "an older term after a newer one");
    let terms = stage.number("SELECT count(DISTINCT term) FROM written").await;
    assert!(terms >= 3, "{terms} terms in six seconds: {events:?}");
}

async fn write<DB: Sql>(tenure: Tenure, pool: Pool<DB>) -> Result<(), TransactionError> {
    loop {
        // The local look is left out on purpose: a transaction that is refused is asked for again until the end.
        match tenure.begin(&pool).await {
            Ok(mut tx) => {
                DB::run(&mut tx, &row(&tenure, 0)).await?;
                tx.commit().await?;
            }
            Err(TransactionError::Ended(ended)) => return Err(ended.into()),
            Err(TransactionError::Sqlx(error)) => println!("{error}"),
            Err(other) => panic!("{other:?}"),
        }
    }
}
