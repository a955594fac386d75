//! I3: as long as a fenced transaction is open, no claim of its name succeeds.

use std::time::Duration;

use leader::{EventKind, TransactionError};
use leader_tests::harness::Sql;
use leader_tests::harness::local::{Events, FAST, Puppet};
use tokio::time::Instant;

use crate::{NAME, Stage, keep_busy, row, scenarios};

scenarios!(servers:
    nobody_is_elected_while_it_is_open,
    renewals_pass_beside_a_transaction_longer_than_the_lease,
);
scenarios!(sqlite:
    nobody_is_elected_while_it_holds_the_file,
    renewals_pass_between_transactions_back_to_back,
);

async fn nobody_is_elected_while_it_is_open<DB: Sql>(stage: Stage<DB>) {
    let bystander = Puppet::default();
    let led = stage.lead_with(|builder| builder.work("other", bystander.work())).await;
    led.puppet.stay();
    let events = Events::default();
    let mut puppet = Puppet::default();
    let standby = stage.elector("second", &events).work(NAME, puppet.work()).work("other", bystander.work());
    let standby = standby.start().await.unwrap();

    let pool = stage.pool(1);
    let mut open = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut open, &row(&led.tenure, 1)).await.unwrap();
    stage.rob("first").await;
    led.events.of(EventKind::Lost, &led.tenure).await;

    // Another name moves at once.
    events.wait("the election to the other name", |seen| seen.is_of(EventKind::Elected, "other")).await;
    // This one does not, for longer than a lease.
    keep_busy::<DB>(&mut open, FAST.lease * 2).await;
    assert!(!events.all().iter().any(|seen| seen.is_of(EventKind::Elected, NAME)), "I3: {events:?}");
    assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");

    let freed = Instant::now();
    let refused = open.commit().await.unwrap_err();
    assert!(matches!(refused, TransactionError::Ended(_)));
    let next = puppet.tenure().await;
    assert!(freed.elapsed() < Duration::from_secs(2), "elected {:?} after the transaction", freed.elapsed());
    assert!(next.term() > led.tenure.term());
    assert_eq!(stage.written().await, 0);
    led.puppet.obey();
    standby.shutdown().await.unwrap();
}

async fn renewals_pass_beside_a_transaction_longer_than_the_lease<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    let mut open = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut open, &row(&led.tenure, 1)).await.unwrap();
    keep_busy::<DB>(&mut open, FAST.lease * 2).await;
    open.commit().await.unwrap();
    assert_eq!(stage.written().await, 1);
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
}

/// An open transaction holds the whole file: no name moves, and the own renewals wait too. What is left to promise is
/// that the transaction of a tenure that is over for it commits nothing, and that somebody leads afterwards.
async fn nobody_is_elected_while_it_holds_the_file<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    led.puppet.stay();
    let events = Events::default();
    let mut puppet = Puppet::default();
    let standby = stage.elector("second", &events).work(NAME, puppet.work());
    let standby = standby.start().await.unwrap();
    let pool = stage.pool(1);
    let mut open = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut open, &row(&led.tenure, 1)).await.unwrap();
    keep_busy::<DB>(&mut open, FAST.lease * 2).await;
    led.events.of(EventKind::Lost, &led.tenure).await;
    assert_eq!(events.count(EventKind::Elected), 0, "{events:?}");
    open.commit().await.unwrap_err();
    let next = puppet.tenure().await;
    assert!(next.term() > led.tenure.term());
    assert_eq!(stage.written().await, 0);
    led.puppet.obey();
    standby.shutdown().await.unwrap();
}

async fn renewals_pass_between_transactions_back_to_back<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    let until = Instant::now() + FAST.lease * 4;
    let mut commits = 0;
    while Instant::now() < until {
        let mut open = led.tenure.begin(&pool).await.unwrap();
        DB::run(&mut open, &row(&led.tenure, 1)).await.unwrap();
        keep_busy::<DB>(&mut open, FAST.renew).await;
        open.commit().await.unwrap();
        commits += 1;
    }
    assert_eq!(stage.written().await, commits);
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
}
