//! Answers to renewals that are lost, late, or come in another order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leader::{EventKind, Timings};
use leader_tests::harness::local::{Events, Puppet};
use leader_tests::harness::proxy::Judged;
use leader_tests::harness::{Fate, Proxy, Sql, Statement, To};
use tokio::time::Instant;

use crate::{LOSSY, NAME, TIMINGS, assert_never_two, behind_a_proxy, elector, lead, lead_with, scenarios};

scenarios!(servers:
    nobody_runs_beside_a_renewal_that_hangs,
    trust_is_counted_from_the_start_of_the_renewal,
    every_second_renewal_is_lost,
    a_lease_is_lost_at_the_deadline_and_not_before,
    answers_in_another_order,
);

/// The renewal reaches the server when another leads already, and finds no session.
async fn nobody_runs_beside_a_renewal_that_hangs<DB: Sql>() {
    let (database, proxy) = behind_a_proxy::<DB>().await;
    let first = lead(proxy.url(), "first").await;
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let second = elector(&database.url, "second", &events).work(NAME, puppet.work()).start().await.unwrap();
    proxy.each(To::Server, Statement::Renew, Fate::Hold);
    let held = proxy.wait("a renewal", |judged| judged.fate == Fate::Hold).await;
    let next = puppet.tenure().await;
    assert!(next.term() > first.tenure.term());
    assert_never_two(&[&first.events, &events]);

    proxy.pass();
    let arrived = |judged: &Judged| judged.fate == Fate::Pass && judged.message == held.message;
    let arrived = proxy.wait("the renewal to arrive", arrived).await;
    assert!(arrived.at > first.events.of(EventKind::SteppedDown, &first.tenure).await.at);
    tokio::time::sleep(TIMINGS.lease).await;
    next.check().unwrap();
    assert_eq!(first.events.count(EventKind::Elected), 1, "{:?}", first.events);
    assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
    second.shutdown().await.unwrap();
}

/// Renewals are answered late, and then not before the deadline.
async fn trust_is_counted_from_the_start_of_the_renewal<DB: Sql>() {
    const LATE: Duration = Duration::from_millis(600);
    let timings = Timings { attempt: Some(Duration::from_millis(1500)), ..TIMINGS };

    let (_database, proxy) = behind_a_proxy::<DB>().await;
    let led = lead_with(timings, proxy.url(), "first").await;
    let answers = AtomicUsize::new(0);
    proxy.rule(move |message| match message.is(To::Client, Statement::Renew) {
        true if answers.fetch_add(1, Ordering::Relaxed) < 4 => Fate::Delay(LATE),
        true => Fate::Swallow,
        false => Fate::Pass,
    });
    tokio::time::sleep(LATE * 4).await;
    led.tenure.check().expect("late answers are answers");
    let lost = led.events.of(EventKind::Lost, &led.tenure).await;
    let good = last_good(&proxy, LATE, lost.at);
    let after = lost.at.duration_since(good);
    assert!(after < timings.deadline + LATE / 2, "lost {after:?} after the start of the last good renewal");
    assert!(after + LATE / 2 > timings.deadline, "lost {after:?} after the start of the last good renewal");
}

/// One missed renewal is no outage.
async fn every_second_renewal_is_lost<DB: Sql>() {
    let (_database, proxy) = behind_a_proxy::<DB>().await;
    let led = lead_with(LOSSY, proxy.url(), "first").await;
    let renewals = AtomicUsize::new(0);
    proxy.rule(move |message| {
        let renews = message.is(To::Server, Statement::Renew);
        if renews && renewals.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            Fate::Swallow
        } else {
            Fate::Pass
        }
    });
    tokio::time::sleep(TIMINGS.lease * 2).await;
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    let lost = proxy.judged().iter().filter(|judged| judged.fate == Fate::Swallow).count();
    assert!(lost >= 3, "only {lost} renewals were lost");
}

async fn a_lease_is_lost_at_the_deadline_and_not_before<DB: Sql>() {
    const SLACK: Duration = Duration::from_millis(500);

    let (_database, proxy) = behind_a_proxy::<DB>().await;
    let led = lead_with(LOSSY, proxy.url(), "first").await;
    proxy.wait("a renewal", |judged| judged.message.is(To::Client, Statement::Renew)).await;
    proxy.each(To::Server, Statement::Renew, Fate::Swallow);
    let lost = led.events.of(EventKind::Lost, &led.tenure).await;
    let after = lost.at.duration_since(last_good(&proxy, Duration::ZERO, lost.at));
    assert!(after < TIMINGS.deadline + SLACK, "lost {after:?} after the start of the last good renewal");
    assert!(after + SLACK > TIMINGS.deadline, "lost {after:?} after the start of the last good renewal");
    let tries = proxy.judged().iter().filter(|judged| judged.fate == Fate::Swallow).count();
    assert!(tries > 1, "given up after one try: {:?}", proxy.judged());
}

/// The answer to a renewal that was given up comes after the answers to later ones, and then the answers stop.
async fn answers_in_another_order<DB: Sql>() {
    let (_database, proxy) = behind_a_proxy::<DB>().await;
    let led = lead_with(LOSSY, proxy.url(), "first").await;
    proxy.next(To::Client, Statement::Renew, Fate::Hold);
    let held = proxy.wait("an answer", |judged| judged.fate == Fate::Hold).await;
    let later = |judged: &Judged| {
        judged.message.is(To::Client, Statement::Renew) && judged.message.connection > held.message.connection
    };
    let later = proxy.wait("the answer to a later renewal", later).await;
    let next = |judged: &Judged| judged.message.is(To::Server, Statement::Renew) && judged.at > later.at;
    proxy.wait("one more renewal", next).await;
    proxy.swallow_old(move |connection| connection != held.message.connection);
    let arrived = |judged: &Judged| judged.message == held.message && judged.fate == Fate::Pass;
    proxy.wait("the first answer to arrive", arrived).await;
    tokio::time::sleep(TIMINGS.lease).await;
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
}

/// When the last renewal was sent whose answer arrived before `lost`; answers arrive so much after they were judged.
pub(crate) fn last_good(proxy: &Proxy, late: Duration, lost: Instant) -> Instant {
    let judged = proxy.judged();
    let arrived = |answer: &&Judged| {
        let passed = matches!(answer.fate, Fate::Pass | Fate::Delay(_));
        let took = if let Fate::Delay(delay) = answer.fate { delay } else { Duration::ZERO };
        answer.message.is(To::Client, Statement::Renew) && passed && took <= late && answer.at + took < lost
    };
    let good = judged.iter().filter(arrived).map(|answer| {
        let request = judged.iter().find(|request| {
            let (request, answer) = (request.message, answer.message);
            request.to == To::Server
                && (request.connection, request.number) == (answer.connection, answer.number)
        });
        request.expect("what was answered was asked").at
    });
    good.max().expect("a good renewal")
}
