//! Connections whose other end is gone without a word.

use std::time::Duration;

use leader::{EventKind, Timings};
use leader_tests::harness::local::{Events, Led, Puppet};
use leader_tests::harness::proxy::Judged;
use leader_tests::harness::{Sql, Statement, To, eventually};
use tokio::time::Instant;

use crate::{LOSSY, NAME, TIMINGS, behind_a_proxy, elector, lead, lead_with, scenarios};

scenarios!(servers: a_tenure_survives_its_connection, the_options_of_a_pool_are_read_at_each_dial);
scenarios!(postgres: standbys_look_while_nobody_hears, a_listening_connection_that_died_is_noticed);

async fn a_tenure_survives_its_connection<DB: Sql>() {
    let (_database, proxy) = behind_a_proxy::<DB>().await;
    let led = lead_with(LOSSY, proxy.url(), "first").await;
    for _ in 0..2 {
        proxy.swallow_old(|_| true);
        tokio::time::sleep(TIMINGS.lease).await;
        led.tenure.check().unwrap();
    }
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    led.running.shutdown().await.unwrap();
}

/// Credentials are rotated, or the server has moved: whoever gave the elector a pool tells the pool.
async fn the_options_of_a_pool_are_read_at_each_dial<DB: Sql>()
where
    for<'p> leader::Database: From<&'p sqlx::Pool<DB>>,
{
    let (database, proxy) = behind_a_proxy::<DB>().await;
    let pool = DB::pool_to(proxy.url(), 1);
    let led = Led::by(|events, puppet| {
        elector(proxy.url(), "first", events).timings(LOSSY).database(&pool).work(NAME, puppet.work())
    })
    .await;
    pool.set_connect_options(database.url.parse().map_err(drop).expect("a URL"));
    proxy.swallow();
    tokio::time::sleep(TIMINGS.lease * 2).await;
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    led.running.shutdown().await.unwrap();
}

/// A wake-up is a hint only: a standby whose connection is dead and looks alive scans.
async fn standbys_look_while_nobody_hears<DB: Sql>() {
    let heard = after_the_death_of_the_listener::<DB>(TIMINGS, false).await;
    assert!(heard < TIMINGS.campaign * 3, "elected {heard:?} after the release");
}

async fn a_listening_connection_that_died_is_noticed<DB: Sql>() {
    let timings = Timings { campaign: Duration::from_secs(30), ..TIMINGS };
    let heard = after_the_death_of_the_listener::<DB>(timings, true).await;
    assert!(heard < Duration::from_secs(3), "elected {heard:?} after the release");
}

/// How long after the release a standby is elected whose listening connection has died, or has been replaced since.
async fn after_the_death_of_the_listener<DB: Sql>(timings: Timings, replaced: bool) -> Duration {
    /// Longer than a listener waits before it asks whether its connection still works.
    const NOTICED: Duration = Duration::from_mins(1);

    let (database, proxy) = behind_a_proxy::<DB>().await;
    let led = lead(&database.url, "first").await;
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let standby = elector(proxy.url(), "second", &events).timings(timings).work(NAME, puppet.work());
    let standby = standby.start().await.unwrap();
    let listens = |judged: &Judged| judged.message.is(To::Client, Statement::Listen);
    let first = proxy.wait("a listener", listens).await.message;
    let listener = first.connection;
    // It has tried out that it hears, and gives up the channel of the trial.
    let tried = |judged: &Judged| {
        listens(judged) && judged.message.connection == listener && judged.message.number > first.number
    };
    proxy.wait("its trial", tried).await;
    proxy.swallow_old(move |connection| connection == listener);
    if replaced {
        eventually("another listener", NOTICED, async || {
            let judged = proxy.judged();
            judged.iter().find(|judged| listens(judged) && judged.message.connection > listener).map(drop)
        })
        .await;
    }
    led.running.shutdown().await.unwrap();
    let released = Instant::now();
    let next = puppet.tenure().await;
    assert!(next.term() > led.tenure.term());
    let after = released.elapsed();
    standby.shutdown().await.unwrap();
    after
}
