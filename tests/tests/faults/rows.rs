//! How many rows a statement changed is not how many it found.

use leader::EventKind;
use leader_tests::harness::{Kind, PATIENCE, Sql, TestDatabase, eventually};

use crate::{PATIENT, lead_with, scenarios};

scenarios!(servers: a_renewal_that_changes_nothing_is_no_loss);

/// As a second renewal within one millisecond is: the row is what it was before.
async fn a_renewal_that_changes_nothing_is_no_loss<DB: Sql>() {
    const RENEWALS: i64 = 4;

    let database = TestDatabase::create_to_wait(DB::KIND).await;
    let led = lead_with(PATIENT, &database.url, "first").await;
    for statement in unchanged_by_renewals(DB::KIND) {
        database.execute(statement).await;
    }
    let before = database.sessions().await;
    let renewed = async || {
        let count = match DB::KIND {
            Kind::Postgres => "SELECT last_value FROM renewals",
            _ => "SELECT next_not_cached_value FROM renewals",
        };
        (database.number(count).await > RENEWALS).then_some(())
    };
    eventually("renewals", PATIENCE, renewed).await;
    assert_eq!(database.sessions().await, before, "they changed nothing");
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    led.running.shutdown().await.unwrap();
}

fn unchanged_by_renewals(kind: Kind) -> [&'static str; 2] {
    match kind {
        Kind::Postgres => [
            "CREATE SEQUENCE renewals; GRANT ALL ON renewals TO PUBLIC; \
             CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             PERFORM nextval('renewals'); RETURN OLD; END $$",
            "CREATE TRIGGER keep BEFORE UPDATE ON leader_sessions FOR EACH ROW EXECUTE FUNCTION keep()",
        ],
        _ => [
            "CREATE SEQUENCE renewals NOCACHE",
            "CREATE TRIGGER keep BEFORE UPDATE ON leader_sessions FOR EACH ROW \
             SET NEW.expires_at_ms = IF(NEXTVAL(renewals) > 0, OLD.expires_at_ms, 0)",
        ],
    }
}
