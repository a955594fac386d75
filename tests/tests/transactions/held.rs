//! I3: as long as a fenced transaction is open, no claim of its name succeeds.

use std::time::Duration;

use leader::{EventKind, Role, Running, Status, TransactionError};
use leader_tests::harness::local::{Events, FAST, Puppet, SLEEPY};
use leader_tests::harness::{Kind, PATIENCE, Sql, logs};
use sqlx::Postgres;
use tokio::time::Instant;

use crate::{NAME, Stage, keep_busy, row, scenarios};

scenarios!(servers:
    nobody_is_elected_while_it_is_open,
    a_standby_says_what_it_waits_for,
    renewals_pass_beside_a_transaction_longer_than_the_lease,
);
scenarios!(postgres:
    a_copy_of_a_leader_that_is_gone_is_ended,
    a_statement_of_a_leader_that_is_gone_is_ended,
);
scenarios!(sqlite:
    nobody_is_elected_while_it_holds_the_file,
    renewals_pass_between_transactions_back_to_back,
);

async fn nobody_is_elected_while_it_is_open<DB: Sql>(stage: Stage<DB>) {
    let mut bystander = Puppet::default();
    let led = stage.lead_with(|builder| builder.work("other", bystander.work())).await;
    led.puppet.stay();
    let other = bystander.tenure().await;
    let events = Events::default();
    let mut puppet = Puppet::default();
    let standby = stage.elector("second", &events).work(NAME, puppet.work()).work("other", bystander.work());
    let standby = standby.start().await.unwrap();

    let pool = stage.pool(1);
    let mut open = led.tenure.begin(&pool).await.unwrap();
    DB::run(&mut open, &row(&led.tenure, 1)).await.unwrap();
    stage.rob("first").await;
    led.events.of(EventKind::Lost, &led.tenure).await;

    // Another name moves at once, to whoever comes first.
    let moved = bystander.tenure().await;
    assert!(moved.term() > other.term());
    // This one does not, for longer than a lease where nobody can end the transaction.
    let long = if DB::KIND == Kind::Postgres { FAST.lease / 4 } else { FAST.lease * 2 };
    keep_busy::<DB>(&mut open, long).await;
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

/// I8: a `COPY` that waits for its client is not idle, and so no limit of the server's applies.
async fn a_copy_of_a_leader_that_is_gone_is_ended(stage: Stage<Postgres>) {
    is_ended(stage, async |connection| {
        let mut copy = connection.copy_in_raw("COPY written (term, what) FROM STDIN").await?;
        copy.send(&b"1\t1\n"[..]).await?;
        std::future::pending().await
    })
    .await;
}

/// What a server does for a client that is gone, it goes on doing.
async fn a_statement_of_a_leader_that_is_gone_is_ended(stage: Stage<Postgres>) {
    is_ended(stage, async |connection| Postgres::run(connection, "SELECT pg_sleep(600)").await).await;
}

/// Stays in the middle of `hang` when its session goes, as a process would that is frozen there.
async fn is_ended(
    stage: Stage<Postgres>,
    hang: impl AsyncFnOnce(&mut sqlx::PgConnection) -> sqlx::Result<()>,
) {
    let led = stage.lead().await;
    led.puppet.stay();
    let (events, mut puppet, mut bystander) = (Events::default(), Puppet::default(), Puppet::default());
    let standby = stage.elector("second", &events).work(NAME, puppet.work()).work("other", bystander.work());
    let standby = standby.start().await.unwrap();
    let other = bystander.tenure().await;

    let pool = stage.pool(2);
    let mut open = led.tenure.begin(&pool).await.unwrap();
    let mut healthy = other.begin(&pool).await.unwrap();
    let robbed = Instant::now();
    let elected = async {
        stage.rob("first").await;
        (puppet.tenure().await, robbed.elapsed())
    };
    let found = async {
        tokio::pin!(elected);
        tokio::select! {
            elected = &mut elected => elected,
            ended = hang(&mut open) => {
                ended.unwrap_err();
                elected.await
            }
        }
    };
    let (next, late) = tokio::select! {
        found = found => found,
        // The bound on idle transactions is as long as a lease, and so is the wait.
        () = keep_busy::<Postgres>(&mut healthy, PATIENCE) => panic!("nobody was elected"),
    };
    assert!(late < FAST.lease + Duration::from_secs(2), "elected {late:?} after the loss");
    assert!(next.term() > led.tenure.term());
    // Whoever leads is left alone.
    Postgres::run(&mut healthy, &row(&other, 1)).await.unwrap();
    healthy.commit().await.unwrap();
    open.commit().await.unwrap_err();
    assert_eq!(stage.written().await, 1);
    led.puppet.obey();
    standby.shutdown().await.unwrap();
}

/// The name is nobody's and cannot be had: a standby tells the log once, and its status as long as it lasts.
async fn a_standby_says_what_it_waits_for<DB: Sql>(stage: Stage<DB>) {
    logs::keep();
    // Their bounds leave the transaction alone for as long as this looks at it.
    let led = stage.lead_with(|builder| builder.timings(SLEEPY)).await;
    led.puppet.stay();
    let session = led.running.status().session.expect("it has a session");
    let events = Events::default();
    let mut puppet = Puppet::default();
    let standby = stage.elector("second", &events).timings(SLEEPY).work(NAME, puppet.work());
    let standby = standby.start().await.unwrap();

    let pool = stage.pool(1);
    let open = led.tenure.begin(&pool).await.unwrap();
    stage.rob("first").await;
    let (by, since) = fenced(&standby).await;
    assert_eq!(by, session);
    assert!(since.elapsed().unwrap() < Duration::from_secs(20));
    let [lease] = &leader::status(&stage.eyes).await.unwrap()[..] else { panic!("one name") };
    assert_eq!((&lease.holder, lease.left_by.as_deref()), (&None, Some(session.as_str())));

    open.rollback().await.unwrap();
    puppet.tenure().await;
    let mut status = standby.subscribe();
    status.wait_for(|status| matches!(role(status), Role::Leading { .. })).await.expect("the elector lives");
    let [lease] = &leader::status(&stage.eyes).await.unwrap()[..] else { panic!("one name") };
    assert_eq!(lease.left_by, None);
    let told = logs::about(&session);
    let told = told.iter().filter(|line| line.contains("is still open") && line.contains(NAME)).count();
    assert_eq!(told, 1, "{:#?}", logs::about(&session));
    led.puppet.obey();
    standby.shutdown().await.unwrap();
}

/// Waits until the work is fenced: by which session, and since when.
async fn fenced(standby: &Running) -> (String, std::time::SystemTime) {
    let mut status = standby.subscribe();
    let found = status.wait_for(|status| matches!(role(status), Role::Fenced { .. })).await;
    let found = found.expect("the elector lives").clone();
    let Role::Fenced { session, since, .. } = role(&found) else { unreachable!("it was waited for") };
    (session.clone(), *since)
}

fn role(status: &Status) -> &Role {
    let [work] = status.works.as_slice() else { panic!("one work: {status:?}") };
    &work.role
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
