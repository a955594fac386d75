//! What every store must do, statement by statement.
//!
//! One suite, instantiated for each database and for the one in memory under paused time. Cases are named after what
//! must hold; the numbers are those of the invariants in `docs/design.md`.

#![allow(
    clippy::missing_panics_doc,
    reason = "each case panics where the store does not do what its name says"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use leader::WorkName;
use leader::test_util::{AnyStore, Hold, Holder, Scan, SessionId, Store};
use tokio::time::sleep;

/// Makes stores of one empty database.
pub trait Bench: Sync {
    /// A store of one more replica, each of which calls itself [`INSTANCE`].
    fn store(&self, namespace: &str, lease: Duration) -> AnyStore;
}

/// What every replica of the suite calls itself.
pub const INSTANCE: &str = "conformance";

/// A lease that outlives every case.
const LONG: Duration = Duration::from_mins(10);

/// A lease that expires while one waits, and not between two statements on a busy machine.
const SHORT: Duration = Duration::from_millis(800);

/// Calls `$each!(case)` for every case of the suite.
#[macro_export]
macro_rules! conformance_cases {
    ($each:ident) => {
        $each!(preparing_twice_changes_nothing);
        $each!(many_replicas_prepare_at_once);
        $each!(a_renewal_keeps_a_session_and_says_what_it_holds);
        $each!(an_unknown_session_is_lost);
        $each!(an_expired_session_is_never_renewed);
        $each!(a_live_session_is_not_reaped);
        $each!(a_reaped_session_is_never_renewed);
        $each!(a_free_name_goes_to_whoever_claims_it_first);
        $each!(a_claim_tells_what_it_won_and_no_more);
        $each!(expiry_alone_does_not_move_a_name);
        $each!(a_name_moves_only_from_the_session_that_is_gone);
        $each!(a_session_that_expired_claims_nothing);
        $each!(terms_grow_with_every_claim);
        $each!(terms_grow_over_rows_that_were_deleted);
        $each!(a_release_needs_session_and_term);
        $each!(closing_frees_every_name);
        $each!(a_scan_tells_the_vacant_from_the_held);
        $each!(a_scan_lists_sessions_that_expired_without_a_name);
        $each!(a_scan_tells_the_next_expiry_of_others);
        $each!(namespaces_are_kept_apart);
        $each!(names_are_compared_byte_by_byte);
        $each!(one_of_many_candidates_wins);
        $each!(sessions_opened_during_a_claim_lose_nothing);
        $each!(a_release_is_noticed_by_standbys);
        $each!(a_thousand_names_in_one_statement_each);
    };
}

fn names(texts: &[&str]) -> Vec<WorkName> {
    let mut names: Vec<WorkName> =
        texts.iter().map(|text| WorkName::new(text).expect("a good name")).collect();
    names.sort();
    names
}

fn id(number: u128) -> SessionId {
    SessionId::new(number)
}

/// A store with tables and rows for these names, and an open session.
async fn replica(bench: &dyn Bench, lease: Duration, texts: &[&str], session: SessionId) -> AnyStore {
    let mut store = bench.store("test", lease);
    store.prepare(true).await.expect("the tables can be made");
    store.ensure(&names(texts)).await.expect("the names can be given rows");
    store.open(session).await.expect("a session can be opened");
    store
}

/// Looks until something is so.
async fn until<T>(
    store: &mut AnyStore,
    me: SessionId,
    what: &str,
    mut so: impl FnMut(Scan) -> Option<T>,
) -> T {
    for _ in 0..2_000 {
        let scan = store.scan(me).await.expect("a scan is answered");
        if let Some(found) = so(scan) {
            return found;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("not in 20 s: {what}");
}

/// Waits until a session has expired.
async fn expired(store: &mut AnyStore, me: SessionId, of: SessionId) {
    let of = (of, INSTANCE.to_owned());
    until(store, me, "the session expires", |scan| scan.expired.contains(&of).then_some(())).await;
}

async fn claim_all(store: &mut AnyStore, session: SessionId, texts: &[&str]) -> Vec<Hold> {
    let mut won = store.claim(session, &names(texts), &[]).await.expect("a claim is answered");
    won.sort();
    won
}

fn won(holds: &[Hold]) -> Vec<&str> {
    holds.iter().map(|(name, _)| name.as_str()).collect()
}

/// A second preparation finds everything there, with and without the right to create.
pub async fn preparing_twice_changes_nothing(bench: &dyn Bench) {
    let mut store = replica(bench, LONG, &["a"], id(1)).await;
    let held = claim_all(&mut store, id(1), &["a"]).await;
    store.prepare(true).await.expect("prepared already");
    store.prepare(false).await.expect("prepared already");
    store.ensure(&names(&["a"])).await.expect("there already");
    assert_eq!(store.held(id(1)).await.expect("answered"), held);
}

/// 20 replicas of a new deployment start at once.
pub async fn many_replicas_prepare_at_once(bench: &dyn Bench) {
    let starts = (0..20_u32).map(|number| async move {
        let mut store = bench.store("test", LONG);
        let all: Vec<String> = (0..20).map(|name| format!("name-{name:02}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        // Deadlocks and lock waits are the keeper's to try again; anything else is a failure.
        settle(async || store.prepare(true).await).await;
        let all = names(&all);
        settle(async || store.ensure(&all).await).await;
        settle(async || store.open(id(u128::from(number) + 1)).await).await;
    });
    futures::future::join_all(starts).await;
    let mut store = bench.store("test", LONG);
    let scan = store.scan(id(99)).await.expect("answered");
    assert_eq!(scan.rows, 20);
}

/// Tries again what fails in passing, as a keeper does.
pub async fn settle<T>(mut operation: impl AsyncFnMut() -> Result<T, leader::test_util::StoreError>) -> T {
    for _ in 0..1_000 {
        match operation().await {
            Ok(done) => return done,
            Err(error) if error.is_transient() => sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no end of transient errors");
}

/// I5: the digest is what the session holds.
pub async fn a_renewal_keeps_a_session_and_says_what_it_holds(bench: &dyn Bench) {
    let mut store = replica(bench, SHORT, &["a", "b", "c"], id(1)).await;
    let begun = tokio::time::Instant::now();
    // Two renewals within one millisecond, and then on past the lease that it was opened with.
    while begun.elapsed() < SHORT * 2 {
        let digest = store.renew(id(1)).await.expect("answered").expect("the session lives");
        assert_eq!(digest.count, 0);
        sleep(Duration::from_millis(1)).await;
    }
    let holds = claim_all(&mut store, id(1), &["a", "c"]).await;
    let digest = store.renew(id(1)).await.expect("answered").expect("the session lives");
    assert_eq!(digest.count, 2);
    assert_eq!(digest.terms, holds.iter().map(|(_, term)| term.get()).sum::<i64>());
}

/// A session that was deleted, or never was, is not brought back by a renewal.
pub async fn an_unknown_session_is_lost(bench: &dyn Bench) {
    let mut store = replica(bench, LONG, &["a"], id(1)).await;
    assert_eq!(store.renew(id(2)).await.expect("answered"), None);
    store.close(id(1)).await.expect("answered");
    assert_eq!(store.renew(id(1)).await.expect("answered"), None);
    store.close(id(1)).await.expect("closing what is closed is no error");
}

/// I6, also while its row is still there.
pub async fn an_expired_session_is_never_renewed(bench: &dyn Bench) {
    let mut store = replica(bench, SHORT, &["a"], id(1)).await;
    let mut other = bench.store("test", LONG);
    expired(&mut other, id(2), id(1)).await;
    assert_eq!(store.renew(id(1)).await.expect("answered"), None);
}

/// I1: only what has expired is reaped, whatever is asked for.
pub async fn a_live_session_is_not_reaped(bench: &dyn Bench) {
    let mut store = replica(bench, LONG, &["a"], id(1)).await;
    assert_eq!(store.reap(&[id(1), id(7)]).await.expect("answered"), []);
    assert!(store.renew(id(1)).await.expect("answered").is_some());
}

/// I1: from the reap on, the session can never come back.
pub async fn a_reaped_session_is_never_renewed(bench: &dyn Bench) {
    let mut store = replica(bench, SHORT, &["a"], id(1)).await;
    let mut other = replica(bench, LONG, &["a"], id(2)).await;
    expired(&mut other, id(2), id(1)).await;
    assert_eq!(other.reap(&[id(1), id(2)]).await.expect("answered"), [id(1)]);
    assert_eq!(other.reap(&[id(1)]).await.expect("answered"), [], "it was the last time");
    assert_eq!(store.renew(id(1)).await.expect("answered"), None);
}

/// And to nobody else.
pub async fn a_free_name_goes_to_whoever_claims_it_first(bench: &dyn Bench) {
    let mut first = replica(bench, LONG, &["a", "b"], id(1)).await;
    let mut second = replica(bench, LONG, &["a", "b"], id(2)).await;
    assert_eq!(won(&claim_all(&mut first, id(1), &["a"]).await), ["a"]);
    assert_eq!(won(&claim_all(&mut second, id(2), &["a", "b"]).await), ["b"]);
    assert_eq!(won(&second.held(id(2)).await.expect("answered")), ["b"]);
}

/// I7: what an older claim won whose answer was lost, it does not adopt.
pub async fn a_claim_tells_what_it_won_and_no_more(bench: &dyn Bench) {
    let mut store = replica(bench, LONG, &["a", "b"], id(1)).await;
    let lost = claim_all(&mut store, id(1), &["a"]).await;
    // Not in the same millisecond.
    sleep(Duration::from_millis(5)).await;
    assert_eq!(won(&claim_all(&mut store, id(1), &["a", "b"]).await), ["b"]);
    let mut held = store.held(id(1)).await.expect("answered");
    held.sort();
    assert_eq!(held[0], lost[0], "it is held all the same");
}

/// I1: a claim of a name whose session has expired and was not reaped wins nothing.
pub async fn expiry_alone_does_not_move_a_name(bench: &dyn Bench) {
    let mut first = replica(bench, SHORT, &["a"], id(1)).await;
    let mut second = replica(bench, LONG, &["a"], id(2)).await;
    claim_all(&mut first, id(1), &["a"]).await;
    expired(&mut second, id(2), id(1)).await;
    assert_eq!(claim_all(&mut second, id(2), &["a"]).await, []);
    second.reap(&[id(1)]).await.expect("answered");
    let taken = second.claim(id(2), &names(&["a"]), &[id(1)]).await.expect("answered");
    assert_eq!(won(&taken), ["a"]);
}

/// I1: the session that is gone is compared with the one in the row.
pub async fn a_name_moves_only_from_the_session_that_is_gone(bench: &dyn Bench) {
    let mut first = replica(bench, LONG, &["a"], id(1)).await;
    let mut second = replica(bench, LONG, &["a"], id(2)).await;
    claim_all(&mut first, id(1), &["a"]).await;
    let taken = second.claim(id(2), &names(&["a"]), &[id(7), id(8)]).await.expect("answered");
    assert_eq!(taken, [], "7 and 8 may be gone, and do not hold it");
    assert_eq!(won(&first.held(id(1)).await.expect("answered")), ["a"]);
}

/// I6: a replica that lost its session wins nothing with it.
pub async fn a_session_that_expired_claims_nothing(bench: &dyn Bench) {
    let mut store = replica(bench, SHORT, &["a"], id(1)).await;
    let mut other = bench.store("test", LONG);
    expired(&mut other, id(2), id(1)).await;
    assert_eq!(claim_all(&mut store, id(1), &["a"]).await, []);
    assert_eq!(claim_all(&mut store, id(9), &["a"]).await, [], "a session that never was");
}

/// I2.
pub async fn terms_grow_with_every_claim(bench: &dyn Bench) {
    let mut store = replica(bench, LONG, &["a"], id(1)).await;
    let mut last = 0;
    for _ in 0..5 {
        let holds = claim_all(&mut store, id(1), &["a"]).await;
        let [(_, term)] = holds.as_slice() else { panic!("{holds:?}") };
        assert!(term.get() > last, "{term} after {last}");
        last = term.get();
        assert_eq!(store.release(id(1), &holds).await.expect("answered"), []);
    }
}

/// I2: the clock takes over where the counter was lost.
pub async fn terms_grow_over_rows_that_were_deleted(bench: &dyn Bench) {
    let mut store = replica(bench, LONG, &["a"], id(1)).await;
    let before = claim_all(&mut store, id(1), &["a"]).await;
    // A name that gets its row now has seen no claim, as after a restore; the clock has moved on since.
    sleep(Duration::from_millis(5)).await;
    store.ensure(&names(&["b"])).await.expect("answered");
    let after = claim_all(&mut store, id(1), &["b"]).await;
    assert!(after[0].1 > before[0].1, "{after:?} after {before:?}");
}

/// I2: one of them alone is not enough.
pub async fn a_release_needs_session_and_term(bench: &dyn Bench) {
    let mut store = replica(bench, LONG, &["a"], id(1)).await;
    let mut other = replica(bench, LONG, &["a"], id(2)).await;
    let old = claim_all(&mut store, id(1), &["a"]).await;
    assert_eq!(other.release(id(2), &old).await.expect("answered"), [], "not its name, and no error");
    assert_eq!(store.held(id(1)).await.expect("answered"), old);
    store.release(id(1), &old).await.expect("answered");
    let new = claim_all(&mut store, id(1), &["a"]).await;
    store.release(id(1), &old).await.expect("answered");
    assert_eq!(store.held(id(1)).await.expect("answered"), new, "an old term's release frees nothing");
}

/// At the end of a shutdown, by one statement.
pub async fn closing_frees_every_name(bench: &dyn Bench) {
    let mut store = replica(bench, LONG, &["a", "b", "c"], id(1)).await;
    let mut other = replica(bench, LONG, &["a", "b", "c"], id(2)).await;
    claim_all(&mut store, id(1), &["a", "b", "c"]).await;
    store.close(id(1)).await.expect("answered");
    let scan = other.scan(id(2)).await.expect("answered");
    assert_eq!(scan.vacancies.len(), 3);
    assert!(scan.vacancies.iter().all(|vacancy| vacancy.holder == Some(Holder::Gone(id(1)))));
    let all = names(&["a", "b", "c"]);
    assert_eq!(other.claim(id(2), &all, &[id(1)]).await.expect("answered").len(), 3);
}

/// Held, never held, given back, expired.
pub async fn a_scan_tells_the_vacant_from_the_held(bench: &dyn Bench) {
    let texts = ["expired", "given-back", "held", "never"];
    let mut dying = replica(bench, SHORT, &texts, id(1)).await;
    let mut living = replica(bench, LONG, &texts, id(2)).await;
    claim_all(&mut dying, id(1), &["expired"]).await;
    let holds = claim_all(&mut living, id(2), &["given-back", "held"]).await;
    living.release(id(2), &holds[..1]).await.expect("answered");
    expired(&mut living, id(2), id(1)).await;
    let mut scan = living.scan(id(2)).await.expect("answered");
    scan.vacancies.sort_by(|a, b| a.name.cmp(&b.name));
    let seen: Vec<(&str, Option<Holder>)> =
        scan.vacancies.iter().map(|vacancy| (vacancy.name.as_str(), vacancy.holder)).collect();
    assert_eq!(seen, [("expired", Some(Holder::Expired(id(1)))), ("given-back", None), ("never", None)]);
    assert_eq!(scan.rows, 4);
}

/// Else they would pile up.
pub async fn a_scan_lists_sessions_that_expired_without_a_name(bench: &dyn Bench) {
    drop(replica(bench, SHORT, &["a"], id(1)).await);
    let mut store = replica(bench, LONG, &["a"], id(2)).await;
    expired(&mut store, id(2), id(1)).await;
    assert_eq!(store.reap(&[id(1)]).await.expect("answered"), [id(1)]);
    assert_eq!(store.scan(id(2)).await.expect("answered").expired, []);
}

/// By the database's clock, as time that remains.
pub async fn a_scan_tells_the_next_expiry_of_others(bench: &dyn Bench) {
    let mut store = replica(bench, SHORT, &["a"], id(1)).await;
    assert_eq!(store.scan(id(1)).await.expect("answered").next_expiry, None, "its own is of no interest");
    drop(replica(bench, LONG, &["a"], id(2)).await);
    let left = store.scan(id(1)).await.expect("answered").next_expiry.expect("another session lives");
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
    drop(replica(bench, LONG / 2, &["a"], id(3)).await);
    let sooner = store.scan(id(1)).await.expect("answered").next_expiry.expect("another session lives");
    assert!(sooner <= LONG / 2, "{sooner:?}");
}

/// Equal names of two applications in one database.
pub async fn namespaces_are_kept_apart(bench: &dyn Bench) {
    let mut here = replica(bench, LONG, &["a"], id(1)).await;
    let mut there = bench.store("elsewhere", SHORT);
    there.prepare(true).await.expect("answered");
    there.ensure(&names(&["a", "b"])).await.expect("answered");
    there.open(id(2)).await.expect("answered");
    assert_eq!(won(&claim_all(&mut there, id(2), &["a"]).await), ["a"]);
    let scan = here.scan(id(1)).await.expect("answered");
    assert_eq!(scan.rows, 1);
    assert_eq!(scan.next_expiry, None);
    assert_eq!(won(&claim_all(&mut here, id(1), &["a", "b"]).await), ["a"]);
    assert_eq!(here.renew(id(1)).await.expect("answered").expect("it lives").count, 1);
    assert_eq!(won(&there.held(id(2)).await.expect("answered")), ["a"]);
}

/// No collation, no folding, no padding, no escape.
pub async fn names_are_compared_byte_by_byte(bench: &dyn Bench) {
    let good: Vec<String> = include!("../../leader/src/name/cases.rs")
        .into_iter()
        .filter(|(.., verdict)| *verdict == "good")
        .map(|(text, times, _)| text.repeat(times))
        .collect();
    let texts: Vec<&str> = good.iter().map(String::as_str).collect();
    let mut store = replica(bench, LONG, &texts, id(1)).await;
    let scan = store.scan(id(1)).await.expect("answered");
    let seen: BTreeSet<String> = scan.vacancies.iter().map(|vacancy| vacancy.name.to_string()).collect();
    assert_eq!(seen, texts.iter().map(|text| (*text).to_owned()).collect());
    for text in texts {
        let hold = claim_all(&mut store, id(1), &[text]).await;
        assert_eq!(won(&hold), [text]);
        assert_eq!(store.held(id(1)).await.expect("answered"), hold, "no other name moved along");
        assert_eq!(store.release(id(1), &hold).await.expect("answered"), []);
    }
}

/// And every round has exactly one winner.
pub async fn one_of_many_candidates_wins(bench: &dyn Bench) {
    const CANDIDATES: u128 = 12;
    let mut stores = Vec::new();
    for number in 1..=CANDIDATES {
        stores.push((id(number), replica(bench, LONG, &["a"], id(number)).await));
    }
    for _ in 0..25 {
        let claims = stores.iter_mut().map(|(session, store)| {
            let session = *session;
            async move { settle(async || store.claim(session, &names(&["a"]), &[]).await).await }
        });
        let answers = futures::future::join_all(claims).await;
        let winners: Vec<usize> = (0..answers.len()).filter(|at| !answers[*at].is_empty()).collect();
        let [winner] = winners.as_slice() else { panic!("{} winners", winners.len()) };
        let (session, store) = &mut stores[*winner];
        store.release(*session, &answers[*winner]).await.expect("answered");
    }
}

/// I1: a claim that re-reads a locked row but not the sessions takes a live name. Here nobody's session ever ends, and
/// so nobody but its holder may ever lose a name.
pub async fn sessions_opened_during_a_claim_lose_nothing(bench: &dyn Bench) {
    let claimants = (0..8_u128).map(|number| async move {
        let mut lost = 0;
        let mut store = replica(bench, LONG, &["a", "b", "c"], id((number + 1) << 32)).await;
        for round in 1..=15_u128 {
            // Each round under a session that is newer than what the others' claims have seen.
            let session = id(((number + 1) << 32) + round);
            settle(async || store.open(session).await).await;
            let scan = settle(async || store.scan(session).await).await;
            let gone: Vec<SessionId> = scan
                .vacancies
                .iter()
                .filter_map(|vacancy| match vacancy.holder {
                    Some(Holder::Gone(gone)) => Some(gone),
                    _ => None,
                })
                .collect();
            let all = names(&["a", "b", "c"]);
            let holds = settle(async || store.claim(session, &all, &gone).await).await;
            let still = settle(async || store.held(session).await).await;
            lost += holds.iter().filter(|hold| !still.contains(hold)).count();
            // One half is given back, the other half left by a session that is closed.
            if round % 2 == 0 {
                settle(async || store.release(session, &holds).await).await;
            }
            settle(async || store.close(session).await).await;
        }
        lost
    });
    let lost: usize = futures::future::join_all(claimants).await.into_iter().sum();
    assert_eq!(lost, 0, "names were taken from live sessions");
}

/// The hint comes well before anybody would look by himself.
pub async fn a_release_is_noticed_by_standbys(bench: &dyn Bench) {
    let mut leader = replica(bench, LONG, &["a"], id(1)).await;
    let mut standby = replica(bench, LONG, &["a"], id(2)).await;
    let companion = standby.companion().map(tokio::spawn);
    let hold = claim_all(&mut leader, id(1), &["a"]).await;
    // Whatever happened so far may cause hints, and a database that only looks now and then gives them for ever.
    for _ in 0..8 {
        if tokio::time::timeout(Duration::from_secs(1), standby.changed()).await.is_err() {
            break;
        }
    }
    leader.release(id(1), &hold).await.expect("answered");
    let hint = tokio::time::timeout(Duration::from_secs(10), standby.changed()).await;
    let scan = standby.scan(id(2)).await.expect("answered");
    if let Some(companion) = companion {
        companion.abort();
    }
    hint.expect("a hint within 10 s");
    assert_eq!(scan.vacancies.len(), 1);
}

/// And not by one statement a name, which would show here as minutes.
pub async fn a_thousand_names_in_one_statement_each(bench: &dyn Bench) {
    let texts: Vec<String> = (0..1_000).map(|number| format!("name-{number:04}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut store = replica(bench, LONG, &texts, id(1)).await;
    let begun = tokio::time::Instant::now();
    let holds = claim_all(&mut store, id(1), &texts).await;
    assert_eq!(holds.len(), 1_000);
    let digest = store.renew(id(1)).await.expect("answered").expect("it lives");
    assert_eq!(digest.count, 1_000);
    assert_eq!(store.release(id(1), &holds).await.expect("answered"), []);
    assert_eq!(store.held(id(1)).await.expect("answered"), []);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
