//! The protocol as it is.

use crate::explore::explore;
use crate::rules::Bound;
use crate::steps::{Event, Properties};

/// Nothing is broken, a leader is never out of reach, and enough was put to the test.
fn holds<const R: usize>(bound: Bound, at_least: usize, events: &[Event]) {
    let explored = explore::<R>(bound, &[], Properties::ALL);
    if let Some(violation) = explored.violation {
        panic!("{:?} is broken after\n{}", violation.property, violation.path);
    }
    let dead_ends = explored.dead_ends(bound);
    if let Some(nearest) = dead_ends.first() {
        panic!("no leader can follow on {:#?}", explored.states[*nearest]);
    }
    let (states, asked) = (explored.states.len(), explored.leave_a_way(bound));
    println!("{R} replicas, {bound:?}: {states} states, of {asked} a leader can be reached");
    assert!(states >= at_least, "only {states} states");
    assert!(asked >= at_least / 5, "from only {asked} states must a leader be reached");
    for event in events {
        assert!(explored.seen(*event) > 0, "never seen: {event:?}");
    }
}

#[test]
fn a_replica_freezes() {
    let bound = Bound { sessions: 2, freezes: 1, transactions: 1, ..Bound::least() };
    let events = [
        Event::Takeover,
        Event::Commit,
        Event::RefusedFence,
        Event::ClaimKeptOut,
        Event::ClaimRefused,
        Event::ReleaseKept,
        Event::LateRenewal,
        Event::ReapInVain,
        Event::ElectedWhenGone,
    ];
    holds::<2>(bound, 700_000, &events);
}

#[test]
fn a_lease_is_lost() {
    let bound = Bound { elections: 3, sessions: 2, losses: 1, ..Bound::least() };
    let events = [Event::Takeover, Event::LateRenewal, Event::ReapInVain, Event::StrayCommitted];
    holds::<2>(bound, 250_000, &events);
}

#[test]
fn answers_are_lost() {
    let bound = Bound { elections: 3, given_up: 2, ..Bound::least() };
    holds::<2>(bound, 200_000, &[Event::Election, Event::LostClaimFound, Event::StrayCommitted]);
}

#[test]
fn an_answer_is_lost_beside_a_transaction() {
    let bound = Bound { elections: 3, given_up: 1, transactions: 1, ..Bound::least() };
    let events = [
        Event::LostClaimFound,
        Event::StrayCommitted,
        Event::Commit,
        Event::RefusedFence,
        Event::ReleaseKept,
    ];
    holds::<2>(bound, 140_000, &events);
}

#[test]
fn a_process_crashes() {
    let bound = Bound { sessions: 2, crashes: 1, ..Bound::least() };
    holds::<2>(bound, 100_000, &[Event::Takeover, Event::StrayCommitted]);
}

#[test]
fn replicas_shut_down() {
    let bound = Bound { sessions: 2, shutdown: true, ..Bound::least() };
    holds::<2>(bound, 20_000, &[Event::Takeover]);
}

#[test]
fn three_replicas() {
    let bound = Bound { transactions: 1, ..Bound::least() };
    holds::<3>(bound, 140_000, &[Event::Commit, Event::RefusedFence, Event::ClaimKeptOut, Event::ReapInVain]);
}
