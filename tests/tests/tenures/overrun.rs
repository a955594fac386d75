//! Work that ignores the loss of its lease: the process would end, and on time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leader::test_util::{Delivery, Statement};
use leader::{Builder, EventKind, Overrun, Timings};
use leader_tests::harness::local::{Events, FAST, Puppet};
use leader_tests::harness::{Kind, PATIENCE, Sql, TestDatabase};
use sqlx::{MySql, Postgres, Sqlite};
use tokio::sync::oneshot;

use crate::{NAME, World, scenarios};

scenarios!(every world:
    the_grace_after_a_loss,
    a_loss_at_the_deadline,
    no_overrun_for_work_that_obeys,
    a_hook_that_panics_hears_of_the_next_one,
);
scenarios!(real: before_the_lease_expires, without_the_keeper);

/// What a busy machine may be late.
const LATE: Duration = Duration::from_millis(400);

/// The event is stamped a little later than the loss.
const JUST_UNDER_GRACE: Duration = Duration::from_millis(480);

/// The moment before the expiry comes first, with room for a busy machine between the two.
const TIGHT: Timings = Timings {
    lease: Duration::from_secs(2),
    grace: Duration::from_millis(1500),
    margin: Duration::from_millis(500),
    ..FAST
};

type Overruns = Arc<Mutex<Vec<Overrun>>>;

fn noting(builder: Builder, overruns: &Overruns) -> Builder {
    let overruns = Arc::clone(overruns);
    builder.on_overrun(move |overrun| overruns.lock().unwrap().push(overrun.clone()))
}

async fn the_grace_after_a_loss(world: World) {
    let overruns = Overruns::default();
    let mut led = world.lead_with(|builder| noting(builder, &overruns)).await;
    led.puppet.stay();
    world.rob().await;
    let lost = led.events.of(EventKind::Lost, &led.tenure).await;
    let overrun = led.events.of(EventKind::Overrun, &led.tenure).await;
    let after = overrun.at.duration_since(lost.at);
    assert!((JUST_UNDER_GRACE..FAST.grace + LATE).contains(&after), "{after:?} after the loss");
    // I4: nothing is campaigned for as long as it runs. And it is told once.
    tokio::time::sleep(FAST.campaign * 3).await;
    assert_eq!(led.events.count(EventKind::Elected), 1, "{:?}", led.events);
    assert_eq!(led.events.count(EventKind::Overrun), 1);
    {
        let overruns = overruns.lock().unwrap();
        assert_eq!(overruns.len(), 1);
        assert_eq!(overruns[0].name.as_str(), NAME);
        assert_eq!(overruns[0].term, led.tenure.term());
        assert_eq!(&*overruns[0].trace_id, led.tenure.trace_id());
    }
    led.puppet.obey();
    let next = led.puppet.tenure().await;
    assert!(next.term() > led.tenure.term());
}

/// The function given to `on_overrun`, which has to end the process in its own way, fails.
async fn a_hook_that_panics_hears_of_the_next_one(world: World) {
    let overruns = Overruns::default();
    let hook = Arc::clone(&overruns);
    let mut led = world
        .lead_with(|builder| {
            builder.on_overrun(move |overrun| {
                hook.lock().unwrap().push(overrun.clone());
                panic!("the hook of the application, at the overrun of `{}`", overrun.name);
            })
        })
        .await;
    let mut terms = Vec::new();
    for _ in 0..2 {
        led.puppet.stay();
        world.rob().await;
        led.events.of(EventKind::Overrun, &led.tenure).await;
        terms.push(led.tenure.term());
        led.puppet.obey();
        led.tenure = led.puppet.tenure().await;
    }
    let told: Vec<_> = overruns.lock().unwrap().iter().map(|overrun| overrun.term).collect();
    assert_eq!(told, terms);
    led.tenure.check().unwrap();
    led.running.shutdown().await.unwrap();
}

async fn no_overrun_for_work_that_obeys(world: World) {
    let led = world.lead().await;
    world.rob().await;
    led.events.of(EventKind::SteppedDown, &led.tenure).await;
    tokio::time::sleep(FAST.lease * 2).await;
    assert_eq!(led.events.count(EventKind::Overrun), 0, "{:?}", led.events);
}

/// The database answers no renewal: the loss comes at the deadline, counted from the start of the last good one.
async fn a_loss_at_the_deadline(world: World) {
    let led = world.lead().await;
    led.puppet.stay();
    let stalled = Stalled::now(&world).await;
    let begun = tokio::time::Instant::now();
    let lost = led.events.of(EventKind::Lost, &led.tenure).await;
    let after = lost.at.duration_since(begun);
    // The last good renewal was up to `renew` before.
    let earliest = Duration::from_millis(600);
    assert!((earliest..FAST.deadline + LATE).contains(&after), "{after:?} after the stall");
    let overrun = led.events.of(EventKind::Overrun, &led.tenure).await;
    assert!(overrun.at.duration_since(lost.at) <= FAST.grace + LATE);
    drop(stalled);
    led.puppet.obey();
}

/// Nobody renews: the work is gone `margin` before the database lets anybody else in.
async fn before_the_lease_expires(world: World) {
    let led = world.lead_with(|builder| builder.timings(TIGHT)).await;
    led.puppet.stay();
    let stalled = Stalled::now(&world).await;
    let expires_at_ms = stalled.expires_at_ms.expect("a real database");
    let overrun = led.events.of(EventKind::Overrun, &led.tenure).await;
    assert_before_expiry(overrun.at_ms, expires_at_ms);
    drop(stalled);
    led.puppet.obey();
}

/// The keeper's own thread hangs, for good as it were: a hook that should not block does.
async fn without_the_keeper(world: World) {
    let events = Events::default();
    let (hook, puppet) = (events.hook(), Puppet::default());
    let (wake, asleep) = std::sync::mpsc::channel::<()>();
    let asleep = Mutex::new(asleep);
    let elector = world.elector("first", &events).timings(TIGHT);
    let elector = elector.on_event(move |event| {
        hook(event);
        let keepers =
            event.kind == EventKind::Elected && event.name.as_ref().is_some_and(|name| name.as_str() == "z");
        if keepers {
            let _ = asleep.lock().unwrap().recv_timeout(PATIENCE);
        }
    });
    let mut first = puppet;
    let second = Puppet::default();
    let elector = elector.work(NAME, first.work()).work("z", second.work());
    let running = elector.start().await.unwrap();
    let tenure = first.tenure().await;
    first.stay();
    let sessions = world.real().sessions().await;
    let lost = events.of(EventKind::Lost, &tenure).await;
    let overrun = events.of(EventKind::Overrun, &tenure).await;
    assert_before_expiry(overrun.at_ms, sessions[0].expires_at_ms);
    assert!(lost.at < overrun.at);
    tenure.check().unwrap_err();
    assert!(!running.healthy());
    drop(wake);
    first.obey();
    running.shutdown().await.unwrap();
}

#[track_caller]
fn assert_before_expiry(at_ms: i64, expires_at_ms: i64) {
    let margin = i64::try_from(TIGHT.margin.as_millis()).unwrap();
    let before = expires_at_ms - at_ms;
    // Between the start of a renewal and the database's look at its clock there is a trip to it.
    assert!(
        (margin - 350..=margin + 250).contains(&before),
        "{before} ms before the expiry, and {margin} are right"
    );
}

/// As long as this lives, no renewal succeeds.
struct Stalled {
    /// When the lease runs out for good.
    expires_at_ms: Option<i64>,
    _end: oneshot::Sender<()>,
}

impl Stalled {
    async fn now(world: &World) -> Self {
        match world {
            World::Memory(memory) => {
                memory.on_statement(|statement| match statement {
                    Statement::Renew => Delivery::RequestLost,
                    _ => Delivery::Answered,
                });
                Self { expires_at_ms: None, _end: oneshot::channel().0 }
            }
            World::Real(database) => match database.kind {
                Kind::Postgres => Self::on::<Postgres>(database, "BEGIN", " FOR UPDATE").await,
                Kind::MySql => Self::on::<MySql>(database, "BEGIN", " FOR UPDATE").await,
                Kind::Sqlite => Self::on::<Sqlite>(database, "BEGIN IMMEDIATE", "").await,
            },
        }
    }

    async fn on<DB: Sql>(database: &TestDatabase, begin: &str, locking: &str) -> Self {
        let pool = DB::pool(database, 1);
        let mut connection = pool.acquire().await.unwrap();
        DB::run(&mut connection, begin).await.unwrap();
        let look = format!("SELECT expires_at_ms FROM leader_sessions{locking}");
        let expires_at_ms = DB::number(&mut connection, &look).await.unwrap();
        let (end, ended) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let _ = ended.await;
            let _ = DB::run(&mut connection, "ROLLBACK").await;
        });
        Self { expires_at_ms: Some(expires_at_ms), _end: end }
    }
}
