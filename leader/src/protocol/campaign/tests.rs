//! Single decisions, one a test. What they come to together is the simulation's business.

use super::*;
use crate::protocol::{Digest, Failure, Hint, Holder, Reply, Scan, Vacancy};

const START: u64 = 100_000;

const fn at(millis: u64) -> Moment {
    Moment::after_origin(Duration::from_millis(START + millis))
}

fn name(text: &str) -> WorkName {
    WorkName::new(text).expect("a good name")
}

fn campaign() -> Campaign {
    let mut next = 1;
    let fresh = move || {
        next += 1;
        SessionId::new(next)
    };
    let session = Session::opened(SessionId::new(1), at(0));
    Campaign::new(Timings::default(), [name("a"), name("b")], session, fastrand::Rng::with_seed(7), fresh)
}

fn sent(campaign: &mut Campaign, millis: u64) -> Attempt {
    match campaign.next(at(millis)) {
        Next::Send(attempt) => attempt,
        other => panic!("{other:?}"),
    }
}

fn waits(campaign: &mut Campaign, millis: u64) -> Moment {
    match campaign.next(at(millis)) {
        Next::Wait { until, .. } => until,
        other => panic!("{other:?}"),
    }
}

/// Sends what is due and answers it at once.
fn answer(campaign: &mut Campaign, millis: u64, reply: Result<Reply, Failure>) -> Request {
    let attempt = sent(campaign, millis);
    let request = attempt.request.clone();
    campaign.answer(attempt, reply, at(millis));
    request
}

fn scan(free: &[&str]) -> Reply {
    let vacancies = free.iter().map(|text| Vacancy { name: name(text), holder: None });
    Reply::Scanned(Scan { vacancies: vacancies.collect(), rows: 2, ..Scan::default() })
}

/// A campaign that leads these names under the terms 1, 2, …
fn leading(names: &[&str]) -> Campaign {
    let mut campaign = campaign();
    answer(&mut campaign, 0, Ok(scan(names)));
    let won = names.iter().zip(1..).map(|(text, term)| (name(text), Term::new(term)));
    let claim = answer(&mut campaign, 0, Ok(Reply::Claimed(won.collect())));
    assert!(matches!(claim, Request::Claim { .. }), "{claim:?}");
    campaign.effects();
    campaign
}

fn digest(count: u64, terms: i64) -> Reply {
    Reply::Renewed(Some(Digest { count, terms }))
}

fn endings(campaign: &mut Campaign) -> Vec<(String, Ending)> {
    let effects = campaign.effects().into_iter();
    effects
        .filter_map(|effect| match effect {
            Effect::End { name, ending, .. } => Some((name.to_string(), ending)),
            _ => None,
        })
        .collect()
}

#[test]
fn trust_is_counted_from_the_start_of_the_renewal() {
    let mut campaign = leading(&["a", "b"]);
    let attempt = sent(&mut campaign, 2_000);
    assert_eq!(attempt.request, Request::Renew { id: SessionId::new(1) });
    campaign.answer(attempt, Ok(digest(2, 3)), at(6_500));
    let trusted = Effect::Trusted { session: SessionId::new(1), good: at(2_000) };
    assert!(campaign.effects().contains(&trusted));
    // Nothing more is answered: lost 10 s after the start, and not a millisecond before.
    let hangs = sent(&mut campaign, 6_500);
    campaign.answer(hangs, Err(Failure::Unknown), at(11_500));
    let hangs = sent(&mut campaign, 11_500);
    assert_eq!(hangs.give_up, at(12_000), "no attempt goes past the deadline");
    campaign.overdue(at(11_999));
    assert_eq!(endings(&mut campaign), []);
    campaign.overdue(at(12_000));
    let lost = |text: &str| (text.to_owned(), Ending::LeaseLost);
    assert_eq!(endings(&mut campaign), [lost("a"), lost("b")]);
}

#[test]
fn an_answer_that_came_too_late_changes_nothing() {
    let mut campaign = leading(&["a", "b"]);
    let attempt = sent(&mut campaign, 2_000);
    campaign.answer(attempt, Ok(digest(2, 3)), at(7_001));
    assert!(!campaign.effects().iter().any(|effect| matches!(effect, Effect::Trusted { .. })));
    assert_eq!(campaign.session().map(|session| session.good), Some(at(0)));
}

#[test]
fn an_answer_of_a_lost_session_changes_nothing() {
    let mut campaign = leading(&["a", "b"]);
    let mut attempt = sent(&mut campaign, 9_000);
    attempt.give_up = at(60_000);
    campaign.answer(attempt, Ok(digest(2, 3)), at(10_500));
    assert_eq!(endings(&mut campaign).len(), 2);
    assert!(campaign.session().is_none());

    // Nor is anything left to the next session of what an old look saw.
    let mut campaign = self::campaign();
    let mut look = sent(&mut campaign, 0);
    look.give_up = at(60_000);
    let expired = vec![(SessionId::new(77), "pod-3".into())];
    campaign.answer(look, Ok(Reply::Scanned(Scan { expired, ..Scan::default() })), at(10_500));
    assert_eq!(answer(&mut campaign, 10_500, Ok(Reply::Done)), Request::Open { id: SessionId::new(2) });
    assert_eq!(answer(&mut campaign, 10_500, Ok(Reply::Done)), Request::Close { id: SessionId::new(1) });
    assert_eq!(sent(&mut campaign, 10_500).request, Request::Scan { id: SessionId::new(2) });
}

#[test]
fn a_claim_whose_answer_was_lost_is_released_and_never_adopted() {
    let mut campaign = campaign();
    answer(&mut campaign, 0, Ok(scan(&["a"])));
    let claim = answer(&mut campaign, 0, Err(Failure::Unknown));
    assert!(matches!(claim, Request::Claim { .. }));
    // The database is asked whether it answers at all, and then what it made of the claim, also where the digest is as
    // expected: the claim may have been on its way still.
    assert!(matches!(answer(&mut campaign, 10, Ok(digest(0, 0))), Request::Renew { .. }));
    let held = Reply::Held(vec![(name("a"), Term::new(7))]);
    assert_eq!(answer(&mut campaign, 300, Ok(held)), Request::Held { id: SessionId::new(1) });
    let release = answer(&mut campaign, 300, Ok(Reply::Released { kept: Vec::new() }));
    assert_eq!(release, Request::Release { id: SessionId::new(1), holds: vec![(name("a"), Term::new(7))] });
    let elected = |effect: &Effect| matches!(effect, Effect::Elected { .. });
    assert!(!campaign.effects().iter().any(elected));
    // And campaigned for anew.
    assert!(matches!(answer(&mut campaign, 300, Ok(scan(&["a"]))), Request::Scan { .. }));
    answer(&mut campaign, 300, Ok(Reply::Claimed(vec![(name("a"), Term::new(8))])));
    assert!(campaign.effects().iter().any(elected));
}

#[test]
fn a_digest_that_differs_ends_what_is_not_held_and_nothing_else() {
    let mut campaign = leading(&["a", "b"]);
    answer(&mut campaign, 2_000, Ok(digest(1, 2)));
    answer(&mut campaign, 2_000, Ok(Reply::Held(vec![(name("b"), Term::new(2))])));
    assert_eq!(endings(&mut campaign), [("a".to_owned(), Ending::LeaseLost)]);
    assert!(campaign.session().is_some(), "the session goes on, and `b` with it");
}

#[test]
fn a_lost_session_is_closed_once_its_works_have_ended() {
    let mut campaign = leading(&["a"]);
    answer(&mut campaign, 2_000, Ok(Reply::Renewed(None)));
    let open = answer(&mut campaign, 2_000, Ok(Reply::Done));
    assert_eq!(open, Request::Open { id: SessionId::new(2) }, "under a new id");
    // `b` is campaigned for while the work of `a` still runs, and `a` is not, free or not.
    answer(&mut campaign, 2_000, Ok(scan(&["a", "b"])));
    let claim = sent(&mut campaign, 2_000);
    assert_eq!(
        claim.request,
        Request::Claim { id: SessionId::new(2), names: vec![name("b")], gone: Vec::new() }
    );
    campaign.answer(claim, Ok(Reply::Claimed(Vec::new())), at(2_000));
    waits(&mut campaign, 2_000);
    campaign.work_ended(&name("a"), Term::new(1), at(2_100));
    assert_eq!(answer(&mut campaign, 2_100, Ok(Reply::Done)), Request::Close { id: SessionId::new(1) });
    waits(&mut campaign, 2_100);
}

#[test]
fn a_name_is_given_back_only_after_its_work_has_ended() {
    let mut campaign = leading(&["a", "b"]);
    assert_eq!(campaign.step_down(&name("a")), Some(Term::new(1)));
    assert_eq!(endings(&mut campaign), [("a".to_owned(), Ending::SteppedDown)]);
    waits(&mut campaign, 100);
    campaign.work_ended(&name("a"), Term::new(1), at(200));
    let release = sent(&mut campaign, 200);
    assert_eq!(
        release.request,
        Request::Release { id: SessionId::new(1), holds: vec![(name("a"), Term::new(1))] }
    );
    // Locked by a fenced transaction that nobody has ended yet: it is tried again.
    campaign.answer(release, Ok(Reply::Released { kept: vec![(name("a"), Term::new(1))] }), at(200));
    assert_eq!(waits(&mut campaign, 200), at(200) + LOOK_AGAIN);
    answer(&mut campaign, 450, Ok(Reply::Released { kept: Vec::new() }));
    let released = Effect::Released { name: name("a"), term: Term::new(1) };
    assert!(campaign.effects().contains(&released));
    // Others may take it at once; this replica waits.
    campaign.hint(Hint::Look, at(500));
    campaign.hint(Hint::Freed(vec![name("a")]), at(500));
    let until = waits(&mut campaign, 500);
    assert!(until > at(500));
    assert!(matches!(answer(&mut campaign, 2_000, Ok(digest(1, 2))), Request::Renew { .. }));
    assert!(waits(&mut campaign, 4_900 - 1_000) <= at(4_000), "nothing but the renewal comes before");
}

#[test]
fn a_name_that_was_given_back_is_claimed_without_a_look() {
    let mut campaign = leading(&["a"]);
    waits(&mut campaign, 100);
    // `a` runs here, `c` is nobody's business: an announcement is no proof of anything.
    campaign.hint(Hint::Freed(vec![name("a"), name("b"), name("c")]), at(100));
    let claim = answer(&mut campaign, 100, Ok(Reply::Claimed(Vec::new())));
    assert_eq!(claim, Request::Claim { id: SessionId::new(1), names: vec![name("b")], gone: Vec::new() });
    assert_eq!(waits(&mut campaign, 100), at(100) + LOOK_AGAIN, "another was faster, or has died of it");
    assert!(matches!(answer(&mut campaign, 350, Ok(scan(&["b"]))), Request::Scan { .. }));
    answer(&mut campaign, 350, Ok(Reply::Claimed(vec![(name("b"), Term::new(3))])));
    campaign.hint(Hint::Freed(vec![name("a"), name("b")]), at(400));
    waits(&mut campaign, 400);
}

#[test]
fn announcements_are_claimed_in_a_bounded_rhythm() {
    let mut campaign = leading(&["a"]);
    waits(&mut campaign, 100);
    let mut claims = 0;
    for now in 100..300 {
        campaign.hint(Hint::Freed(vec![name("b"); 100]), at(now));
        if let Next::Send(attempt) = campaign.next(at(now)) {
            assert_eq!(
                attempt.request,
                Request::Claim { id: SessionId::new(1), names: vec![name("b")], gone: Vec::new() }
            );
            campaign.answer(attempt, Ok(Reply::Claimed(Vec::new())), at(now));
            claims += 1;
        }
    }
    assert_eq!(claims, 20);

    // One that won was no storm.
    let mut campaign = self::campaign();
    answer(&mut campaign, 0, Ok(scan(&[])));
    for won in ["a", "b"] {
        campaign.hint(Hint::Freed(vec![name(won)]), at(100));
        let claim = answer(&mut campaign, 100, Ok(Reply::Claimed(vec![(name(won), Term::new(5))])));
        assert!(matches!(claim, Request::Claim { .. }), "{claim:?}");
    }
}

#[test]
fn an_announcement_outlives_the_failure_of_another_statement() {
    let mut campaign = leading(&["a"]);
    waits(&mut campaign, 100);
    campaign.hint(Hint::Freed(vec![name("b")]), at(100));
    campaign.work_ended(&name("a"), Term::new(1), at(100));
    let release = answer(&mut campaign, 100, Err(Failure::Unknown));
    assert!(matches!(release, Request::Release { .. }), "{release:?}");
    assert!(matches!(answer(&mut campaign, 100, Ok(digest(1, 1))), Request::Renew { .. }));
    answer(&mut campaign, 100, Ok(Reply::Held(Vec::new())));
    let claim = sent(&mut campaign, 100).request;
    assert_eq!(claim, Request::Claim { id: SessionId::new(1), names: vec![name("b")], gone: Vec::new() });
}

#[test]
fn what_fails_for_ever_is_sent_less_and_less_often() {
    let mut campaign = leading(&["a"]);
    waits(&mut campaign, 100);
    campaign.hint(Hint::Look, at(100));
    let mut scans = Vec::new();
    for millis in 100..20_000 {
        while let Next::Send(attempt) = campaign.next(at(millis)) {
            let scan = matches!(attempt.request, Request::Scan { .. });
            let reply = if scan { Err(Failure::Unknown) } else { Ok(digest(1, 1)) };
            campaign.answer(attempt, reply, at(millis));
            if scan {
                scans.push(millis);
                assert!(scans.len() < 100, "it spins: {scans:?}");
            }
        }
    }
    assert_eq!(scans, [100, 100, 350, 850, 1_850, 3_850, 7_850, 12_850, 17_850]);
}

#[test]
fn a_look_that_fails_keeps_no_name_from_being_given_back() {
    let mut campaign = leading(&["a"]);
    waits(&mut campaign, 100);
    campaign.hint(Hint::Look, at(100));
    let scan = answer(&mut campaign, 100, Err(Failure::Unknown));
    assert!(matches!(scan, Request::Scan { .. }), "{scan:?}");
    // The first failure asks for a renewal, which tells whether the database answers at all.
    assert!(matches!(answer(&mut campaign, 100, Ok(digest(1, 1))), Request::Renew { .. }));
    for millis in [100, 350, 850] {
        let scan = answer(&mut campaign, millis, Err(Failure::Unknown));
        assert!(matches!(scan, Request::Scan { .. }), "{scan:?}");
        waits(&mut campaign, millis);
    }
    campaign.work_ended(&name("a"), Term::new(1), at(900));
    let release = answer(&mut campaign, 900, Ok(Reply::Released { kept: Vec::new() }));
    assert!(matches!(release, Request::Release { .. }), "{release:?}");
}

#[test]
fn a_session_that_cannot_be_reaped_keeps_no_other_name_from_being_claimed() {
    let mut campaign = campaign();
    let (stuck, gone) = (SessionId::new(77), SessionId::new(78));
    let vacancy = |text, holder| Vacancy { name: name(text), holder: Some(holder) };
    let look = || {
        Reply::Scanned(Scan {
            vacancies: vec![vacancy("a", Holder::Expired(stuck)), vacancy("b", Holder::Gone(gone))],
            expired: vec![(stuck, "pod-3".into())],
            rows: 2,
            ..Scan::default()
        })
    };
    answer(&mut campaign, 0, Ok(look()));
    let reap = answer(&mut campaign, 0, Err(Failure::Unknown));
    assert_eq!(reap, Request::Reap { ids: vec![stuck] });
    assert!(matches!(answer(&mut campaign, 0, Ok(digest(0, 0))), Request::Renew { .. }));
    let claim = answer(&mut campaign, 0, Ok(Reply::Claimed(vec![(name("b"), Term::new(3))])));
    assert_eq!(claim, Request::Claim { id: SessionId::new(1), names: vec![name("b")], gone: vec![gone] });
    // It is looked for again, and reaped once that is possible.
    let quiet = u64::try_from(LOOK_AGAIN.as_millis()).unwrap();
    assert!(waits(&mut campaign, 0) <= at(quiet));
    answer(&mut campaign, quiet, Ok(look()));
    assert_eq!(
        answer(&mut campaign, quiet, Ok(Reply::Reaped(vec![stuck]))),
        Request::Reap { ids: vec![stuck] }
    );
    let claim = sent(&mut campaign, quiet).request;
    let Request::Claim { names, .. } = claim else { panic!("{claim:?}") };
    assert_eq!(names, [name("a")]);
}

#[test]
fn confirmations_without_end_keep_nothing_else_from_being_sent() {
    let mut campaign = leading(&["a"]);
    waits(&mut campaign, 100);
    campaign.work_ended(&name("a"), Term::new(1), at(100));
    campaign.hint(Hint::Look, at(100));
    let mut others = Vec::new();
    while others.len() < 2 {
        campaign.confirm();
        let attempt = sent(&mut campaign, 100);
        assert!(matches!(attempt.request, Request::Renew { .. }), "{others:?}, {attempt:?}");
        campaign.confirm();
        let held = i64::from(others.is_empty());
        campaign.answer(attempt, Ok(digest(held.unsigned_abs(), held)), at(100));
        let reply = if others.is_empty() { Reply::Released { kept: Vec::new() } } else { scan(&[]) };
        others.push(answer(&mut campaign, 100, Ok(reply)));
    }
    assert!(matches!(others.as_slice(), [Request::Release { .. }, Request::Scan { .. }]), "{others:?}");
    // Where nothing else is due they come one after the other.
    for _ in 0..3 {
        campaign.confirm();
        assert!(matches!(answer(&mut campaign, 100, Ok(digest(0, 0))), Request::Renew { .. }));
    }
}

#[test]
fn a_name_that_was_won_on_an_announcement_is_not_fenced_any_more() {
    let mut campaign = campaign();
    turned_away(&mut campaign, 0, 1_000, |_| 77);
    assert!(campaign.fenced(&name("a")).is_some());
    campaign.hint(Hint::Freed(vec![name("a")]), at(1_100));
    let claim = answer(&mut campaign, 1_100, Ok(Reply::Claimed(vec![(name("a"), Term::new(9))])));
    assert!(matches!(claim, Request::Claim { .. }), "{claim:?}");
    assert_eq!(campaign.fenced(&name("a")), None);
}

#[test]
fn a_shutdown_renews_while_works_wind_down_and_then_closes() {
    let mut campaign = leading(&["a", "b"]);
    assert!(campaign.shut_down());
    assert!(!campaign.shut_down(), "once is enough");
    assert_eq!(endings(&mut campaign).len(), 2);
    campaign.work_ended(&name("b"), Term::new(2), at(100));
    assert!(matches!(
        answer(&mut campaign, 100, Ok(Reply::Released { kept: Vec::new() })),
        Request::Release { .. }
    ));
    for second in 1..30 {
        assert!(matches!(answer(&mut campaign, second * 2_000, Ok(digest(1, 1))), Request::Renew { .. }));
        waits(&mut campaign, second * 2_000);
    }
    campaign.work_ended(&name("a"), Term::new(1), at(59_000));
    assert_eq!(answer(&mut campaign, 59_000, Ok(Reply::Done)), Request::Close { id: SessionId::new(1) });
    assert!(matches!(campaign.next(at(59_000)), Next::Done));
}

#[test]
fn a_shutdown_over_dropped_tables_is_done() {
    let mut campaign = leading(&["a"]);
    campaign.shut_down();
    campaign.work_ended(&name("a"), Term::new(1), at(100));
    let close = answer(&mut campaign, 100, Err(Failure::NoTables));
    assert_eq!(close, Request::Close { id: SessionId::new(1) });
    assert!(matches!(campaign.next(at(100)), Next::Done));
    assert!(campaign.effects().contains(&Effect::Released { name: name("a"), term: Term::new(1) }));
}

#[test]
fn a_shutdown_is_not_quiet_for_what_failed_before() {
    let mut campaign = leading(&["a"]);
    // The session is lost, and its row cannot be deleted.
    answer(&mut campaign, 2_000, Ok(Reply::Renewed(None)));
    campaign.work_ended(&name("a"), Term::new(1), at(2_000));
    assert!(matches!(answer(&mut campaign, 2_000, Ok(Reply::Done)), Request::Open { .. }));
    let mut closes = 0;
    for millis in (2_100..9_000).step_by(50) {
        while let Next::Send(attempt) = campaign.next(at(millis)) {
            let reply = match attempt.request {
                Request::Close { .. } => Err(Failure::Unknown),
                Request::Renew { .. } => Ok(digest(0, 0)),
                _ => Ok(scan(&[])),
            };
            closes += u32::from(reply.is_err());
            campaign.answer(attempt, reply, at(millis));
        }
    }
    assert_eq!(closes, 6, "at 0, 0, 0.25, 0.75, 1.75 and 3.75 s; the next is due at 7.75 s");
    campaign.shut_down();
    let close = answer(&mut campaign, 9_000, Ok(Reply::Done));
    assert!(matches!(close, Request::Close { .. }), "{close:?}");
}

#[test]
fn failures_that_are_far_apart_are_no_series() {
    let mut campaign = leading(&["a"]);
    let mut failures = 0;
    for minute in 1..5 {
        let millis = minute * 60_000;
        // What is due in between is answered.
        for millis in (millis - 59_000..millis).step_by(1_000) {
            while let Next::Send(attempt) = campaign.next(at(millis)) {
                let renewal = matches!(attempt.request, Request::Renew { .. });
                let reply = if renewal { digest(1, 1) } else { scan(&[]) };
                campaign.answer(attempt, Ok(reply), at(millis));
            }
        }
        campaign.hint(Hint::Freed(vec![name("b")]), at(millis));
        let claims = |attempt: &Attempt| matches!(attempt.request, Request::Claim { .. });
        let mut claim = sent(&mut campaign, millis);
        while !claims(&claim) {
            let renewal = matches!(claim.request, Request::Renew { .. });
            let reply = if renewal { digest(1, 1) } else { scan(&[]) };
            campaign.answer(claim, Ok(reply), at(millis));
            claim = sent(&mut campaign, millis);
        }
        campaign.answer(claim, Err(Failure::Unknown), at(millis));
        failures += 1;
        let renewal = answer(&mut campaign, millis, Ok(digest(1, 1)));
        assert!(matches!(renewal, Request::Renew { .. }), "after failure {failures}: {renewal:?}");
        let held = answer(&mut campaign, millis, Ok(Reply::Held(vec![(name("a"), Term::new(1))])));
        assert!(matches!(held, Request::Held { .. }), "{held:?}");
    }
}

#[test]
fn a_shutdown_gives_a_database_that_is_gone_up() {
    let mut campaign = leading(&["a"]);
    campaign.shut_down();
    campaign.work_ended(&name("a"), Term::new(1), at(0));
    campaign.effects();
    let mut now = 0;
    while now < 5_000 {
        match campaign.next(at(now)) {
            Next::Send(attempt) => {
                assert!(attempt.give_up <= at(5_000), "`release` bounds all of it");
                campaign.answer(attempt, Err(Failure::Unknown), at(now + 10));
                now += 10;
            }
            Next::Wait { until, .. } => {
                now = u64::try_from(until.since(at(0)).as_millis()).expect("small");
            }
            Next::Done => panic!("{now} ms"),
        }
    }
    assert!(matches!(campaign.next(at(5_000)), Next::Done));
    assert_eq!(campaign.effects(), [Effect::NotClosed]);
}

#[test]
fn a_claim_that_is_answered_during_a_shutdown_starts_nothing() {
    let mut campaign = campaign();
    answer(&mut campaign, 0, Ok(scan(&["a"])));
    let claim = sent(&mut campaign, 0);
    campaign.shut_down();
    campaign.answer(claim, Ok(Reply::Claimed(vec![(name("a"), Term::new(1))])), at(10));
    assert!(!campaign.effects().iter().any(|effect| matches!(effect, Effect::Elected { .. })));
    assert!(matches!(answer(&mut campaign, 10, Ok(Reply::Done)), Request::Close { .. }));
}

#[test]
fn nothing_spins_while_the_database_fails() {
    let mut campaign = leading(&["a"]);
    let (mut now, mut statements) = (0, 0);
    while now < 60_000 {
        match campaign.next(at(now)) {
            Next::Send(attempt) => {
                statements += 1;
                // Refused at once, renewals now and then excepted.
                let reply = match attempt.request {
                    Request::Renew { .. } if statements % 3 == 0 => Ok(digest(1, 1)),
                    Request::Open { .. } => Ok(Reply::Done),
                    _ => Err(Failure::Unknown),
                };
                campaign.answer(attempt, reply, at(now + 1));
                campaign.effects();
                now += 1;
            }
            Next::Wait { until, .. } => {
                assert!(until > at(now));
                now = u64::try_from(until.since(at(0)).as_millis()).expect("small").max(now + 1);
            }
            Next::Done => unreachable!("nobody shuts down"),
        }
    }
    assert!(statements < 60 * 15, "{statements} statements in a minute");
}

#[test]
fn an_idle_standby_only_renews_and_looks() {
    let mut campaign = campaign();
    let (mut now, mut renewals, mut scans) = (0, 0, 0);
    while now < 60_000 {
        match campaign.next(at(now)) {
            Next::Send(attempt) => {
                let reply = match attempt.request {
                    Request::Renew { .. } => {
                        renewals += 1;
                        digest(0, 0)
                    }
                    Request::Scan { .. } => {
                        scans += 1;
                        scan(&[])
                    }
                    ref other => panic!("{other:?}"),
                };
                campaign.answer(attempt, Ok(reply), at(now));
            }
            Next::Wait { until, .. } => {
                now = u64::try_from(until.since(at(0)).as_micros().div_ceil(1_000)).expect("small");
            }
            Next::Done => unreachable!("nobody shuts down"),
        }
    }
    assert_eq!(renewals, 29, "every 2 s");
    assert!((10..=12).contains(&scans), "every 5 to 6 s: {scans}");
}

/// A look that shows `a` pointing to this session, which is gone.
fn left_by(session: u128) -> Reply {
    let holder = Some(Holder::Gone(SessionId::new(session)));
    Reply::Scanned(Scan { vacancies: vec![Vacancy { name: name("a"), holder }], rows: 2, ..Scan::default() })
}

/// Answers what is due until `to`: looks show `a` left by a session, and no claim of it wins.
fn turned_away(
    campaign: &mut Campaign,
    now: u64,
    to: u64,
    session: impl Fn(u64) -> u128,
) -> Vec<(u64, Request)> {
    turned_away_where(campaign, now, to, session, || Ok(Reply::FencedEnded { transactions: 1 }))
}

/// The same where this is what becomes of ending the transaction.
fn turned_away_where(
    campaign: &mut Campaign,
    mut now: u64,
    to: u64,
    session: impl Fn(u64) -> u128,
    ended: impl Fn() -> Result<Reply, Failure>,
) -> Vec<(u64, Request)> {
    let mut asked = Vec::new();
    while now < to {
        match campaign.next(at(now)) {
            Next::Send(attempt) => {
                let reply = match attempt.request {
                    Request::Renew { .. } => Ok(digest(0, 0)),
                    Request::Scan { .. } => Ok(left_by(session(now))),
                    Request::Claim { .. } => Ok(Reply::Claimed(Vec::new())),
                    Request::EndFenced { .. } => ended(),
                    ref other => panic!("{other:?}"),
                };
                asked.push((now, attempt.request.clone()));
                campaign.answer(attempt, reply, at(now));
            }
            Next::Wait { until, .. } => {
                now = u64::try_from(until.since(at(0)).as_micros().div_ceil(1_000)).expect("small");
            }
            Next::Done => unreachable!("nobody shuts down"),
        }
    }
    asked
}

fn fenced(campaign: &mut Campaign) -> Vec<SessionId> {
    let effects = campaign.effects().into_iter();
    effects
        .filter_map(|effect| match effect {
            Effect::Fenced { fenced, .. } => Some(fenced.holder),
            _ => None,
        })
        .collect()
}

#[test]
fn a_name_that_a_transaction_holds_is_told_of_once_and_freed_in_time() {
    let mut campaign = campaign();
    let asked = turned_away(&mut campaign, 0, 11_800, |_| 77);
    let ends: Vec<u64> = asked
        .iter()
        .filter(|(_, request)| matches!(request, Request::EndFenced { .. }))
        .map(|(at, _)| *at)
        .collect();
    // Half of I8's bound, and again: the first may have come too early for it, or have been refused.
    assert!(matches!(ends[..], [5_000..=5_250, 10_000..=10_500]), "{ends:?}");
    assert_eq!(fenced(&mut campaign), [SessionId::new(77)]);
    let told = campaign.fenced(&name("a")).expect("it is fenced");
    assert_eq!((told.since, told.instance), (at(0), None));

    // It ends: the claim wins.
    campaign.hint(Hint::Look, at(11_900));
    answer(&mut campaign, 11_900, Ok(left_by(77)));
    let claim = answer(&mut campaign, 11_900, Ok(Reply::Claimed(vec![(name("a"), Term::new(9))])));
    assert!(matches!(claim, Request::Claim { .. }), "{claim:?}");
    assert_eq!(campaign.fenced(&name("a")), None);
}

/// Many standbys claim at once, and all but one are turned away. That is no fence, nor are holders that die in turn.
#[test]
fn a_name_that_another_standby_takes_is_not_fenced() {
    let mut campaign = campaign();
    turned_away(&mut campaign, 0, 12_000, |now| u128::from(100 + now / 250));
    assert_eq!(fenced(&mut campaign), []);
    assert_eq!(campaign.fenced(&name("a")), None);
}

#[test]
fn a_holder_whose_expiry_was_seen_is_named() {
    let mut campaign = campaign();
    let id = SessionId::new(77);
    let seen = Scan {
        vacancies: vec![Vacancy { name: name("a"), holder: Some(Holder::Expired(id)) }],
        expired: vec![(id, "pod-3".into())],
        rows: 2,
        ..Scan::default()
    };
    answer(&mut campaign, 0, Ok(Reply::Scanned(seen)));
    answer(&mut campaign, 0, Ok(Reply::Reaped(vec![id])));
    answer(&mut campaign, 0, Ok(Reply::Claimed(Vec::new())));
    turned_away(&mut campaign, 1, 1_000, |_| 77);
    let told = campaign.fenced(&name("a")).expect("it is fenced");
    assert_eq!(told.instance.as_deref(), Some("pod-3"));
}

/// I1: a renewal may be on its way still.
#[test]
fn an_expired_session_is_reaped_before_its_names_are_claimed() {
    let id = SessionId::new(77);
    let seen = || {
        Ok(Reply::Scanned(Scan {
            vacancies: vec![Vacancy { name: name("a"), holder: Some(Holder::Expired(id)) }],
            expired: vec![(id, "pod-3".into())],
            rows: 2,
            ..Scan::default()
        }))
    };
    let mut campaign = campaign();
    answer(&mut campaign, 0, seen());
    // Somebody renewed it first.
    let reap = answer(&mut campaign, 0, Ok(Reply::Reaped(Vec::new())));
    assert_eq!(reap, Request::Reap { ids: vec![id] });
    waits(&mut campaign, 0);
    answer(&mut campaign, 300, seen());
    answer(&mut campaign, 300, Ok(Reply::Reaped(vec![id])));
    let claim = sent(&mut campaign, 300).request;
    assert!(matches!(&claim, Request::Claim { gone, .. } if *gone == [id]), "{claim:?}");
}

/// Else replicas that all fail at one moment would renew in step from then on.
#[test]
fn a_renewal_that_is_not_due_keeps_the_rhythm() {
    let mut campaign = leading(&["a", "b"]);
    campaign.confirm();
    let extra = answer(&mut campaign, 700, Ok(digest(2, 3)));
    assert!(matches!(extra, Request::Renew { .. }), "{extra:?}");
    let next = (701..=3_000).find(|now| matches!(campaign.next(at(*now)), Next::Send(_)));
    assert_eq!(next, Some(2_000));
}

/// A role may lack the right.
#[test]
fn a_transaction_that_cannot_be_ended_keeps_nobody_from_looking() {
    let mut campaign = campaign();
    let asked = turned_away_where(&mut campaign, 0, 120_000, |_| 77, || Err(Failure::Unknown));
    let count = |is: fn(&Request) -> bool| asked.iter().filter(|(_, request)| is(request)).count();
    let ends = count(|request| matches!(request, Request::EndFenced { .. }));
    assert!((20..=24).contains(&ends), "every 5 s: {ends}");
    let looks = count(|request| matches!(request, Request::Scan { .. }));
    assert!(looks > 400, "every 250 ms: {looks}");
}
