//! Claims whose answer is lost, whose commit fails, or that arrive late.

use leader::EventKind;
use leader_tests::harness::local::{Events, Puppet};
use leader_tests::harness::proxy::Judged;
use leader_tests::harness::{Fate, Kind, Sql, Statement, To};
use tokio::time::Instant;

use crate::{NAME, TIMINGS, behind_a_proxy, elector, lead, scenarios, term};

scenarios!(servers:
    a_claim_whose_answer_was_lost,
    a_claim_that_was_cut,
    a_claim_whose_commit_fails,
    a_claim_that_arrives_late,
);

/// I7: it is committed, and nobody knows. The name is released and campaigned for anew, and no work runs under that term.
async fn a_claim_whose_answer_was_lost<DB: Sql>() {
    let (database, proxy) = behind_a_proxy::<DB>().await;
    proxy.next(To::Client, Statement::Claim, Fate::Swallow);
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let elector = elector(proxy.url(), "first", &events).work(NAME, puppet.work()).start().await.unwrap();
    proxy.has_swallowed().await;
    let lost = term(&database).await;
    assert!(lost > 0, "it was committed");
    let released = |judged: &Judged| judged.message.is(To::Client, Statement::Release);
    let released = proxy.wait("the release", released).await;

    let tenure = puppet.tenure().await;
    assert!(tenure.term().get() > lost);
    let elected = events.of(EventKind::Elected, &tenure).await;
    assert!(elected.at > released.at, "the name was adopted, not released");
    tokio::time::sleep(TIMINGS.lease).await;
    tenure.check().unwrap();
    assert_eq!(events.count(EventKind::Elected), 1, "{events:?}");
    assert_eq!(term(&database).await, tenure.term().get());
    elector.shutdown().await.unwrap();
}

/// The connection breaks before the claim arrives, and again before its answer does.
async fn a_claim_that_was_cut<DB: Sql>() {
    for to in [To::Server, To::Client] {
        let (database, proxy) = behind_a_proxy::<DB>().await;
        proxy.next(to, Statement::Claim, Fate::Cut);
        let (events, mut puppet) = (Events::default(), Puppet::default());
        let elector = elector(proxy.url(), "first", &events).work(NAME, puppet.work()).start().await.unwrap();
        let tenure = puppet.tenure().await;
        proxy.wait("the claim that was cut", |judged| judged.fate == Fate::Cut).await;
        tokio::time::sleep(TIMINGS.lease).await;
        tenure.check().unwrap();
        assert_eq!(events.count(EventKind::Elected), 1, "{events:?}");
        assert_eq!(term(&database).await, tenure.term().get());
        elector.shutdown().await.unwrap();
    }
}

/// The statement succeeds, and what is checked at its end refuses it.
async fn a_claim_whose_commit_fails<DB: Sql>() {
    let (refuse, allow) = match DB::KIND {
        Kind::Postgres => (
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '23514'; END $$; \
             CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON leader_names DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION refuse()",
            "DROP TRIGGER refuse ON leader_names",
        ),
        _ => (
            "CREATE TRIGGER refuse AFTER UPDATE ON leader_names FOR EACH ROW SIGNAL SQLSTATE '23000'",
            "DROP TRIGGER refuse",
        ),
    };
    let (database, proxy) = behind_a_proxy::<DB>().await;
    lead(&database.url, "first").await.running.shutdown().await.unwrap();
    let before = term(&database).await;
    database.execute(refuse).await;
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let elector = elector(proxy.url(), "second", &events).work(NAME, puppet.work()).start().await.unwrap();
    let claims = |judged: &&Judged| judged.message.is(To::Client, Statement::Claim);
    let begun = Instant::now();
    let second_try = |judged: &Judged| claims(&judged) && judged.at > begun + TIMINGS.campaign;
    proxy.wait("claims that fail", second_try).await;
    assert_eq!(events.count(EventKind::Elected), 0, "{events:?}");
    assert_eq!(term(&database).await, before);
    database.execute(allow).await;
    assert!(puppet.tenure().await.term().get() > before);
    elector.shutdown().await.unwrap();
}

/// A claim that was given up arrives when the name is free again, after all that its replica did since. It wins the name
/// for a replica that does not want it now, and which gives it back.
async fn a_claim_that_arrives_late<DB: Sql>() {
    let (database, proxy) = behind_a_proxy::<DB>().await;
    proxy.next(To::Server, Statement::Claim, Fate::Hold);
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let elector = elector(proxy.url(), "first", &events)
        .timings(leader::Timings { campaign: TIMINGS.lease * 2, ..TIMINGS })
        .work(NAME, puppet.work())
        .start()
        .await
        .unwrap();
    let held = proxy.wait("a claim", |judged| judged.fate == Fate::Hold).await;
    let tenure = puppet.tenure().await;
    elector.step_down(NAME).await.unwrap();
    let released = term(&database).await;
    assert_eq!(released, tenure.term().get());

    proxy.pass();
    let answer = |judged: &Judged| {
        judged.message.is(To::Client, Statement::Claim)
            && judged.message.connection == held.message.connection
    };
    proxy.wait("its answer", answer).await;
    assert!(term(&database).await > released, "it arrived");
    let orphan = term(&database).await;
    let given_back = async || {
        let names = database.names().await;
        (names[0].session_id.is_none()).then_some(())
    };
    leader_tests::harness::eventually("the name to be given back", TIMINGS.lease * 2, given_back).await;
    assert_eq!(events.count(EventKind::Elected), 1, "{events:?}");
    assert!(puppet.tenure().await.term().get() > orphan);
    assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
    elector.shutdown().await.unwrap();
}
