//! How electors stop, and how they give names back.

use std::time::Duration;

use leader::{Ending, Error, EventKind};
use leader_tests::harness::eventually;
use leader_tests::harness::local::{Events, FAST, Led, Puppet};
use tokio::time::{Instant, timeout};

use crate::{NAME, World, scenarios};

scenarios!(every world:
    a_step_down_resolves_after_the_release,
    a_step_down_resolves_though_the_lease_is_lost,
    all_that_ask_for_a_step_down_are_told,
    a_shutdown_that_takes_too_long_names_the_work,
    a_loss_during_a_shutdown_starts_the_grace,
    a_dropped_elector_shuts_down,
);

async fn a_step_down_resolves_after_the_release(world: World) {
    let led = world.lead().await;
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let other = world.elector("second", &events).work(NAME, puppet.work());
    let other = other.start().await.unwrap();
    assert!(matches!(led.running.step_down("nobody").await, Err(Error::NotLeading(_))));
    assert!(matches!(other.step_down(NAME).await, Err(Error::NotLeading(_))));
    led.puppet.stay();
    let mut step_down = Box::pin(led.running.step_down(NAME));
    assert!(timeout(FAST.lease * 2, &mut step_down).await.is_err(), "resolved while the work runs");
    assert_eq!(events.count(EventKind::Elected), 0, "{events:?}");
    led.puppet.obey();
    step_down.await.unwrap();
    let resolved = Instant::now();
    if let World::Real(database) = &world {
        let sessions = database.sessions().await;
        let first = sessions.iter().find(|session| session.instance == "first");
        let name = database.names().await.remove(0);
        assert_ne!(name.session_id.as_deref(), first.map(|first| first.id.as_str()), "not given back");
    }
    let next = puppet.tenure().await;
    assert!(next.term() > led.tenure.term());
    assert!(resolved.elapsed() < Duration::from_secs(1), "taken over after {:?}", resolved.elapsed());
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    other.shutdown().await.unwrap();
}

/// The lease is lost while the work winds down: there is nothing left to give back, and nothing to wait for.
async fn a_step_down_resolves_though_the_lease_is_lost(world: World) {
    let led = world.lead().await;
    led.puppet.stay();
    let mut step_down = Box::pin(led.running.step_down(NAME));
    tokio::select! {
        _ = &mut step_down => panic!("stepped down while the work runs"),
        _ = led.tenure.ended() => {}
    }
    world.rob().await;
    let lost = led.events.of(EventKind::Lost, &led.tenure).await;
    assert_eq!(lost.event.reason.as_deref(), Some("while winding down"));
    led.puppet.obey();
    led.events.of(EventKind::SteppedDown, &led.tenure).await;
    let told = timeout(Duration::from_secs(5), step_down).await;
    told.expect("whoever asked it to step down waits for ever").unwrap();
}

async fn all_that_ask_for_a_step_down_are_told(world: World) {
    let led = world.lead().await;
    led.puppet.stay();
    let step_down = || led.running.step_down(NAME);
    let mut both = Box::pin(async { tokio::join!(step_down(), step_down()) });
    assert!(timeout(FAST.renew, &mut both).await.is_err(), "resolved while the work runs");
    // The work is told by now; and then its lease is lost.
    let mut third = Box::pin(step_down());
    assert!(timeout(FAST.renew, &mut third).await.is_err(), "resolved while the work runs");
    world.rob().await;
    led.events.of(EventKind::Lost, &led.tenure).await;
    let mut fourth = Box::pin(step_down());
    let early = timeout(FAST.renew, &mut fourth).await;
    assert!(early.is_err(), "{early:?} while the work runs");
    led.puppet.obey();
    let all = async { tokio::join!(both, third, fourth) };
    let ((first, second), third, fourth) =
        timeout(Duration::from_secs(5), all).await.expect("somebody waits for ever");
    for told in [first, second, third, fourth] {
        told.unwrap();
    }
    assert_eq!(led.events.count(EventKind::SteppedDown), 1, "{:?}", led.events);
}

async fn a_shutdown_that_takes_too_long_names_the_work(world: World) {
    let led = world.lead_with(|builder| builder.shutdown_timeout(Duration::from_millis(200))).await;
    led.puppet.stay();
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let other = world.elector("second", &events).work(NAME, puppet.work());
    let other = other.start().await.unwrap();
    let begun = Instant::now();
    let error = led.running.shutdown().await.unwrap_err();
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(error.to_string().contains("`mail`"), "{error}");
    let Error::Shutdown { works, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(works, [leader::WorkName::new(NAME).unwrap()]);
    // It keeps its lease all the same.
    tokio::time::sleep(FAST.lease * 2).await;
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    assert_eq!(events.count(EventKind::Elected), 0, "{events:?}");
    led.puppet.obey();
    let end = led.events.of(EventKind::SteppedDown, &led.tenure).await;
    assert_eq!(end.event.reason.as_deref(), Some("shutting down"));
    puppet.tenure().await;
    other.shutdown().await.unwrap();
}

/// As long as the work winds down it holds its lease; without one, its process ends.
async fn a_loss_during_a_shutdown_starts_the_grace(world: World) {
    let Led { events, running, puppet, tenure } = world.lead().await;
    puppet.stay();
    let shutdown = tokio::spawn(running.shutdown());
    assert_eq!(tenure.ended().await, Ending::ShuttingDown);
    tokio::time::sleep(FAST.lease * 2).await;
    assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
    world.rob().await;
    let lost = events.of(EventKind::Lost, &tenure).await;
    let overrun = events.of(EventKind::Overrun, &tenure).await;
    assert!(overrun.at.duration_since(lost.at) <= FAST.grace + Duration::from_millis(400), "{events:?}");
    puppet.obey();
    shutdown.await.unwrap().unwrap();
}

async fn a_dropped_elector_shuts_down(world: World) {
    let led = world.lead().await;
    drop(led.running);
    let end = led.events.of(EventKind::SteppedDown, &led.tenure).await;
    assert_eq!(end.event.reason.as_deref(), Some("shutting down"));
    led.events.wait("the stop", |seen| seen.is(EventKind::Stopped)).await;
    if let World::Real(database) = &world {
        eventually("no session", Duration::from_secs(1), async || {
            database.sessions().await.is_empty().then_some(())
        })
        .await;
    }
}
