//! A tenure that is over opens no transaction and commits none, whatever ended it.

use std::time::Duration;

use leader::{Ending, EventKind, TransactionError};
use leader_tests::harness::local::{Events, Seen};
use leader_tests::harness::{Kind, Sql};
use sqlx::Connection;
use tokio::time::timeout;

use crate::{Led, NAME, Stage, keep_busy, row, scenarios};

scenarios!(every database:
    refused_after_the_loss,
    refused_after_stepping_down,
    refused_after_the_shutdown,
    refused_after_the_work_returned,
);

async fn refused_after_the_loss<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    refused_after(&stage, &led, Ending::LeaseLost, async || {
        // An open transaction on SQLite holds the file, and so nobody can delete anything: there the tenure is over at
        // the deadline, since the keeper cannot renew either.
        if DB::KIND != Kind::Sqlite {
            stage.rob("first").await;
        }
    })
    .await;
    led.puppet.obey();
    led.running.shutdown().await.unwrap();
}

async fn refused_after_stepping_down<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let mut step_down = Box::pin(led.running.step_down(NAME));
    refused_after(&stage, &led, Ending::SteppedDown, async || {
        let soon = timeout(Duration::from_millis(50), &mut step_down).await;
        assert!(soon.is_err(), "the work is still there");
    })
    .await;
    led.puppet.obey();
    step_down.as_mut().await.unwrap();
    drop(step_down);
    led.running.shutdown().await.unwrap();
}

async fn refused_after_the_shutdown<DB: Sql>(stage: Stage<DB>) {
    let Led { events, running, puppet, tenure } = stage.lead().await;
    let other = stage.elector("other", &Events::default());
    let other = other.start().await.unwrap();
    let led = Led { events, running: other, puppet, tenure };
    let shutdown = running.shutdown();
    tokio::pin!(shutdown);
    refused_after(&stage, &led, Ending::ShuttingDown, async || {
        let soon = timeout(Duration::from_millis(50), &mut shutdown).await;
        assert!(soon.is_err(), "the work is still there");
    })
    .await;
    led.puppet.obey();
    shutdown.await.unwrap();
}

async fn refused_after_the_work_returned<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    refused_after(&stage, &led, Ending::SteppedDown, async || {
        led.puppet.leave();
    })
    .await;
    led.running.shutdown().await.unwrap();
}

/// The tenure ends while a transaction is open; then everything is refused.
async fn refused_after<DB: Sql>(stage: &Stage<DB>, led: &Led, ending: Ending, end: impl AsyncFnOnce()) {
    let Led { puppet, tenure, .. } = led;
    puppet.stay();
    let pool = stage.pool(3);
    let mut open = tenure.begin(&pool).await.unwrap();
    DB::run(&mut open, &row(tenure, 1)).await.unwrap();
    // On SQLite a deferred transaction takes no lock before it writes.
    let mut yours = pool.acquire().await.unwrap();
    let mut yours = yours.begin().await.unwrap();

    end().await;
    assert_eq!(tenure.ended().await, ending);
    let over = |refused: TransactionError| matches!(refused, TransactionError::Ended(ended) if ended.ending() == ending);
    assert!(tenure.check().is_err_and(|ended| ended.ending() == ending));

    let refused = tenure.fence(&mut yours).await.unwrap_err();
    assert!(over(refused));
    yours.rollback().await.unwrap();
    assert!(over(open.commit().await.unwrap_err()));
    assert_eq!(stage.written().await, 0, "what was open is gone");

    // Refused before the first statement: there is not even a connection that could send one.
    let taken = stage.pool(1);
    let _connection = taken.acquire().await.unwrap();
    let at_once = Duration::from_secs(2);
    let refused = timeout(at_once, tenure.begin(&taken)).await.unwrap();
    assert!(over(refused.unwrap_err()));
    let refused = timeout(at_once, tenure.begin_elsewhere(&taken)).await.unwrap();
    assert!(over(refused.unwrap_err()));
    let mut called = false;
    let refused = tenure.transaction(&taken, async |_| {
        called = true;
        Ok::<_, TransactionError>(())
    });
    let refused = timeout(at_once, refused).await.unwrap();
    assert!(over(refused.unwrap_err()));
    assert!(!called);
    assert_eq!(stage.written().await, 0);
}

scenarios!(servers: a_clone_that_outlives_the_work_holds_the_name);

/// The work has returned, and a clone of its tenure still has a transaction open: nobody is elected before that is over.
async fn a_clone_that_outlives_the_work_holds_the_name<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    let mut open = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut open, &row(&led.tenure, 1)).await.unwrap();
    let (events, mut puppet) = (Events::default(), led.puppet);
    let other = stage.elector("other", &events).work(NAME, puppet.work());
    let other = other.start().await.unwrap();

    puppet.leave();
    led.events.of(EventKind::SteppedDown, &led.tenure).await;
    keep_busy::<DB>(&mut open, Duration::from_secs(1)).await;
    for events in [&led.events, &events] {
        let later = |seen: &Seen| seen.event.term > Some(led.tenure.term());
        assert!(!events.all().iter().any(later), "I3: {events:?}");
    }
    puppet.obey();
    open.commit().await.unwrap_err();
    let next = puppet.tenure().await;
    assert!(next.term() > led.tenure.term());
    assert_eq!(stage.written().await, 0);
    other.shutdown().await.unwrap();
}
