//! Work that ends by itself: others get their turn at once, and the replica its own again later.

use std::time::Duration;

use leader_tests::harness::{Event, Kind, Launch, TestDatabase, first};

use crate::{assert_within, replica, scenarios};

scenarios!(every database: work_that_returns, work_that_fails, work_that_panics);

async fn work_that_returns(kind: Kind) {
    let stepped_down = takes_turns(kind, "returns").await;
    assert_eq!(stepped_down.reason.as_deref(), Some("work returned"));
    assert_eq!(stepped_down.error, None);
}

async fn work_that_fails(kind: Kind) {
    let stepped_down = takes_turns(kind, "fails").await;
    let error = stepped_down.error.unwrap();
    assert!(error.contains("failed on purpose"), "{error}");
}

async fn work_that_panics(kind: Kind) {
    let stepped_down = takes_turns(kind, "panics").await;
    let error = stepped_down.error.unwrap();
    assert!(error.contains("panicked on purpose"), "{error}");
    let place = error.split("replica.rs:").nth(1).unwrap_or_else(|| panic!("no file and line: {error}"));
    assert!(place.starts_with(|digit: char| digit.is_ascii_digit()), "{error}");
}

/// Returns the first stepping down.
async fn takes_turns(kind: Kind, work: &str) -> Event {
    let database = TestDatabase::create(kind).await;
    let launch = |instance| {
        replica(&database).work("mail", work).every(Duration::from_millis(300)).instance(instance).start()
    };
    let replicas = [launch("one"), launch("two")];
    for replica in &replicas {
        replica.wait("the start", |event| event.is("started")).await;
    }
    let [one, two] = &replicas;
    let both = [one, two];

    let (turn, elected) = first(&both, "the first tenure", |event| event.is("elected")).await;
    let (this, other) = (both[turn], both[1 - turn]);
    let stepped_down = this.wait("its end", |event| event.is("stepped_down")).await;
    assert_eq!(stepped_down.term, elected.term);
    assert_eq!(stepped_down.trace_id, elected.trace_id);

    let next = other.wait("the other's turn", |event| event.is("elected") && event.term > elected.term).await;
    assert_within(
        Duration::from_secs(1),
        stepped_down.at_ms,
        next.at_ms,
        &format!("from one tenure to the next, {this}{other}"),
    );
    assert!(next.instance != elected.instance);

    let again = this.wait("its next turn", |event| event.is("elected") && event.term > elected.term).await;
    let stayed_away = again.at_ms - stepped_down.at_ms;
    // The two times are read by the replica around the wait, each rounded down.
    assert!(
        stayed_away + 1 >= i64::try_from(Launch::TIMINGS.campaign.as_millis()).unwrap(),
        "only {stayed_away} ms: {this}"
    );
    stepped_down
}
