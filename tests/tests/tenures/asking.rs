//! The ways of asking whether a tenure goes on.

use std::time::Duration;

use leader::{Ending, EventKind, Role};
use tokio::time::{Instant, timeout};

use crate::{NAME, World, scenarios};

scenarios!(every world: before_and_after_the_end, everybody_hears_of_a_loss);

const SOON: Duration = Duration::from_secs(5);

async fn before_and_after_the_end(world: World) {
    let led = world.lead().await;
    led.puppet.stay();
    let tenure = &led.tenure;
    assert_eq!(tenure.name(), NAME);
    assert_eq!(tenure.instance(), "first");
    assert_eq!(tenure.trace_id().len(), 32);
    let elected = led.events.of(EventKind::Elected, tenure).await;
    assert_eq!(elected.event.term, Some(tenure.term()));
    assert_eq!(elected.event.name.unwrap().as_str(), NAME);

    assert_eq!(tenure.ending(), None);
    tenure.check().unwrap();
    assert_eq!(tenure.until_ended(async { 42 }).await.unwrap(), 42);
    let begun = Instant::now();
    tenure.sleep(Duration::from_millis(30)).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(30));
    let token = tenure.token();
    assert!(!token.is_cancelled());
    // A library that cancels what it was given ends nothing but itself.
    token.cancel();
    tenure.check().unwrap();
    let token = tenure.token();

    let waiting = [(); 3].map(|()| {
        let tenure = tenure.clone();
        tokio::spawn(async move { tenure.ended().await })
    });
    let sleeper = tokio::spawn({
        let tenure = tenure.clone();
        async move { tenure.sleep(Duration::from_hours(1)).await }
    });
    let step_down = led.running.step_down(NAME);
    tokio::pin!(step_down);
    tokio::select! {
        _ = &mut step_down => panic!("stepped down while the work runs"),
        ending = tenure.ended() => assert_eq!(ending, Ending::SteppedDown),
    }
    for waiting in waiting {
        let ending = timeout(SOON, waiting).await.unwrap().unwrap();
        assert_eq!(ending, Ending::SteppedDown);
    }
    let slept = timeout(SOON, sleeper).await.unwrap().unwrap();
    assert_eq!(slept.unwrap_err().ending(), Ending::SteppedDown);
    let mut statuses = led.running.subscribe();
    let told = statuses.wait_for(|status| matches!(status.works[0].role, Role::Ending { .. }));
    timeout(SOON, told).await.expect("the status says so").unwrap();

    // Over is over, for whoever asks and however often.
    for _ in 0..3 {
        assert_eq!(tenure.ending(), Some(Ending::SteppedDown));
        assert_eq!(tenure.check().unwrap_err().ending(), Ending::SteppedDown);
        let late = timeout(SOON, tenure.ended()).await.unwrap();
        assert_eq!(late, Ending::SteppedDown);
    }
    assert!(token.is_cancelled());
    assert!(tenure.token().is_cancelled());
    let mut polled = false;
    let refused = tenure
        .until_ended(async {
            polled = true;
        })
        .await;
    assert!(refused.is_err() && !polled);
    let slept = timeout(SOON, tenure.sleep(Duration::from_hours(1))).await;
    slept.unwrap().unwrap_err();

    led.puppet.obey();
    step_down.await.unwrap();
    assert_eq!(tenure.ending(), Some(Ending::SteppedDown));
    tenure.check().unwrap_err();
}

async fn everybody_hears_of_a_loss(world: World) {
    let led = world.lead().await;
    led.puppet.stay();
    let before = led.tenure.clone();
    let before = tokio::spawn(async move { before.ended().await });
    world.rob().await;
    assert_eq!(timeout(SOON, before).await.unwrap().unwrap(), Ending::LeaseLost);
    led.tenure.check().unwrap_err();
    assert_eq!(led.tenure.ended().await, Ending::LeaseLost);
    led.events.of(EventKind::Lost, &led.tenure).await;
    led.puppet.obey();
    let end = led.events.of(EventKind::SteppedDown, &led.tenure).await;
    assert_eq!(end.event.reason.as_deref(), Some("lease lost"));
    assert_eq!(led.tenure.ended().await, Ending::LeaseLost);
    // Each has one beginning and one end.
    for kind in [EventKind::Elected, EventKind::Lost, EventKind::SteppedDown] {
        let of = |seen: &&leader_tests::harness::local::Seen| seen.is_about(kind, &led.tenure);
        assert_eq!(led.events.all().iter().filter(of).count(), 1, "{kind}");
    }
}
