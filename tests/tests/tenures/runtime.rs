//! The runtime of the application is shut down under its elector, which has a thread of its own and lives on.

use leader::{Error, EventKind};
use leader_tests::harness::PATIENCE;
use leader_tests::harness::local::{Events, FAST, Puppet};

use crate::{NAME, World, scenarios};

scenarios!(real: a_runtime_that_is_gone_leads_nothing_more);

async fn a_runtime_that_is_gone_leads_nothing_more(world: World) {
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let elector = world.elector("first", &events).work(NAME, puppet.work());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let running = runtime.spawn(elector.start()).await.unwrap().unwrap();
    let tenure = puppet.tenure().await;
    let (others, mut heir) = (Events::default(), Puppet::default());
    let other = world.elector("second", &others).work(NAME, heir.work()).start().await.unwrap();

    runtime.shutdown_background();
    let end = events.of(EventKind::SteppedDown, &tenure).await;
    assert_eq!(end.event.reason.as_deref(), Some("runtime shut down"));
    assert!(end.event.error.is_some_and(|error| error.contains("the runtime was shut down")));
    // Given back, not left to expire.
    let next = heir.tenure().await;
    assert!(next.term() > tenure.term());
    let elected = others.of(EventKind::Elected, &next).await;
    let after = elected.at.duration_since(end.at);
    assert!(after < FAST.lease, "taken over after {after:?}");

    // It has stopped, so there is nobody left to be elected: no work could run.
    events.wait("the stop", |seen| seen.is(EventKind::Stopped)).await;
    let kinds: Vec<_> = events.all().iter().map(|seen| seen.event.kind).collect();
    assert_eq!(
        kinds,
        [EventKind::Started, EventKind::Elected, EventKind::SteppedDown, EventKind::Stopped],
        "{events:?}"
    );
    assert!(!running.healthy());
    let failed = tokio::time::timeout(PATIENCE, running.failed()).await;
    assert!(matches!(failed, Ok(Error::Stopped)), "{failed:?}");
    assert!(matches!(running.step_down(NAME).await, Err(Error::Stopped | Error::NotLeading(_))));
    running.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}
