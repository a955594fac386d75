//! Daylight saving: servers whose clock passes an hour that is missing, and one that comes twice.

use leader::EventKind;
use leader_tests::harness::local::{Events, Puppet};
use leader_tests::harness::{Kind, Proxy, Server, Sql, TestDatabase};
use tokio::time::Instant;

use crate::{NAME, TIMINGS, elector, lead, scenarios};

scenarios!(servers: daylight_saving);

/// When clocks change in Berlin, in seconds since the epoch: from 2:00 to 3:00 on 2026-03-29, from 3:00 to 2:00 on
/// 2026-10-25.
const CHANGES: [i64; 2] = [1_774_746_000, 1_792_890_000];

/// Terms are made, sessions renewed and expired across each of the changes.
async fn daylight_saving<DB: Sql>() {
    let (mut database, server) = TestDatabase::create_to_wait_on(Server::own_with_clock(DB::KIND)).await;
    if DB::KIND == Kind::MySql {
        // The server's own zone, where sqlx would choose UTC. On PostgreSQL it always does.
        database.url.push_str("?timezone=SYSTEM");
    }
    let proxy = Proxy::to(&database).await;
    let mut last = 0;
    for change in CHANGES {
        proxy.pass();
        let change_ms = change * 1_000;
        server.set_clock(change_ms - 3_000);
        assert_ne!(offset::<DB>(&database).await, 0, "a zone with daylight saving");
        let dying = lead(proxy.url(), "dying").await;
        assert!(dying.tenure.term().get() > last);
        let (events, mut puppet) = (Events::default(), Puppet::default());
        // It holds a name of its own across the change, and campaigns for the other's.
        let living = elector(&database.url, "living", &events).work(NAME, puppet.work());
        let living = living.work("reports", |tenure: leader::Tenure| async move {
            tenure.ended().await;
        });
        let living = living.start().await.unwrap();
        events.wait("its first name", |seen| seen.is_of(EventKind::Elected, "reports")).await;

        proxy.swallow();
        let swallowed = Instant::now();
        let next = puppet.tenure().await;
        let after = swallowed.elapsed();
        assert!(after + TIMINGS.renew * 2 > TIMINGS.lease, "elected {after:?} after the last renewal");
        assert!(after < TIMINGS.lease * 2, "elected {after:?} after the last renewal");
        assert!(next.term() > dying.tenure.term());
        tokio::time::sleep(TIMINGS.lease).await;
        let now_ms = database.number(&format!("SELECT {}", now::<DB>())).await;
        assert!((change_ms..change_ms + 600_000).contains(&now_ms), "the clock shows {now_ms}");
        next.check().unwrap();
        assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
        last = next.term().get();
        living.shutdown().await.unwrap();
        drop(dying);
    }
}

/// The present by the server's clock, by its name in UTC.
fn now<DB: Sql>() -> &'static str {
    match DB::KIND {
        Kind::Postgres => "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        _ => "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000",
    }
}

/// The seconds between UTC and the zone of the server, by its present time there.
async fn offset<DB: Sql>(database: &TestDatabase) -> i64 {
    let offset = match DB::KIND {
        Kind::Postgres => {
            "SELECT extract(epoch FROM clock_timestamp() AT TIME ZONE reset_val \
             - clock_timestamp() AT TIME ZONE 'UTC')::bigint FROM pg_settings WHERE name = 'log_timezone'"
        }
        _ => "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW())",
    };
    let pool = DB::pool(database, 1);
    let mut connection = pool.acquire().await.unwrap();
    DB::number(&mut connection, offset).await.unwrap()
}
