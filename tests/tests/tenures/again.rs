//! Elections that follow one another.

use std::time::Duration;

use leader::{EventKind, Tenure, Timings};
use leader_tests::harness::local::{Events, FAST, Puppet, Seen};
use tokio::time::Instant;

use crate::{NAME, World, scenarios};

scenarios!(every world:
    a_replica_that_is_robbed_wins_again,
    every_replica_that_is_robbed_wins_again,
    a_work_that_returns_at_once_leaves_turns_to_others,
    a_hook_that_panics_costs_nothing,
);

/// Its own renewals tell of a loss soon, and nobody stays away from the name for long.
const EAGER: Timings =
    Timings { renew: Duration::from_millis(50), campaign: Duration::from_millis(50), ..FAST };

async fn a_replica_that_is_robbed_wins_again(world: World) {
    let mut led = world.lead_with(|builder| builder.timings(EAGER)).await;
    let mut term = led.tenure.term();
    for round in 1..=20 {
        world.rob().await;
        let tenure = led.puppet.tenure().await;
        assert!(tenure.term() > term, "round {round}");
        term = tenure.term();
        tenure.check().unwrap();
    }
    assert_eq!(led.events.count(EventKind::Lost), 20);
    assert_eq!(led.events.count(EventKind::SteppedDown), 20);
    assert_eq!(led.events.count(EventKind::Overrun), 0);
    led.running.shutdown().await.unwrap();
}

/// Every session is deleted a hundred times, and however often a replica has lost, it leads again.
async fn every_replica_that_is_robbed_wins_again(world: World) {
    const ROUNDS: usize = 100;
    const REPLICAS: [&str; 3] = ["first", "second", "third"];

    let (events, mut puppet) = (Events::default(), Puppet::default());
    let mut electors = Vec::new();
    for instance in REPLICAS {
        let elector = world.elector(instance, &events).timings(EAGER).work(NAME, puppet.work());
        electors.push(elector.start().await.unwrap());
    }
    let mut tenure = puppet.tenure().await;
    let mut yet_to_win = REPLICAS.to_vec();
    let mut rounds = 0;
    while rounds < ROUNDS || !yet_to_win.is_empty() {
        world.rob().await;
        events.of(EventKind::Lost, &tenure).await;
        let next = puppet.tenure().await;
        assert!(next.term() > tenure.term(), "round {rounds}");
        tenure = next;
        rounds += 1;
        // Once more at the end, after all that each of them has lost.
        if rounds >= ROUNDS {
            yet_to_win.retain(|instance| *instance != tenure.instance());
        }
        assert!(rounds < ROUNDS * 2, "{yet_to_win:?} lead no more: {events:?}");
    }
    let lost = |instance: &str| {
        let of = |seen: &&Seen| seen.is(EventKind::Lost) && &*seen.event.instance == instance;
        events.all().iter().filter(of).count()
    };
    let losses = REPLICAS.map(lost);
    assert!(losses.iter().sum::<usize>() == rounds && losses.iter().all(|count| *count >= 10), "{losses:?}");
    assert_eq!(events.count(EventKind::Overrun), 0);
    for elector in electors {
        elector.shutdown().await.unwrap();
    }
}

async fn a_work_that_returns_at_once_leaves_turns_to_others(world: World) {
    const WATCHED: Duration = Duration::from_secs(6);

    let mut electors = Vec::new();
    for instance in ["first", "second"] {
        let events = Events::default();
        let elector = world.elector(instance, &events).work(NAME, |_| async {});
        electors.push((elector.start().await.unwrap(), events));
    }
    let begun = Instant::now();
    tokio::time::sleep(WATCHED).await;
    let counts: Vec<_> = electors.iter().map(|(_, events)| events.count(EventKind::Elected)).collect();
    let turns = begun.elapsed().as_millis() / FAST.campaign.as_millis() + 2;
    for count in &counts {
        assert!((3..=usize::try_from(turns).unwrap()).contains(count), "elections: {counts:?}");
    }
    for (elector, events) in electors {
        assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
        elector.shutdown().await.unwrap();
    }
}

async fn a_hook_that_panics_costs_nothing(world: World) {
    use EventKind::{Elected, Lost, Started, SteppedDown, Stopped};

    let events = Events::default();
    let hook = events.hook();
    let mut puppet = Puppet::default();
    let elector = world.elector("first", &events).on_event(move |event| {
        hook(event);
        panic!("the hook of the application, at `{}`", event.kind);
    });
    let running = elector.work(NAME, puppet.work()).start().await.unwrap();
    let tenure: Tenure = puppet.tenure().await;
    tokio::time::sleep(FAST.lease * 2).await;
    tenure.check().unwrap();
    running.step_down(NAME).await.unwrap();
    let next = puppet.tenure().await;
    assert!(next.term() > tenure.term());
    world.rob().await;
    let third = puppet.tenure().await;
    assert!(third.term() > next.term());
    running.shutdown().await.unwrap();
    let kinds: Vec<_> = events.all().iter().map(|seen| seen.event.kind).collect();
    assert_eq!(
        kinds,
        [Started, Elected, SteppedDown, Elected, Lost, SteppedDown, Elected, SteppedDown, Stopped]
    );
}
