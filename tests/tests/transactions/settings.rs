//! What a fenced transaction sets is gone with it.

use leader::Timings;
use leader_tests::harness::{Kind, Sql};

use crate::{Stage, row, scenarios};

scenarios!(postgres: settings_are_local);
scenarios!(mysql: variables_are_put_back);
scenarios!(servers: a_frozen_holder_has_ten_seconds);

/// Under the default timings, whose lease is longer (I8).
async fn a_frozen_holder_has_ten_seconds<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead_with(|builder| builder.timings(Timings::default())).await;
    let bound = match DB::KIND {
        Kind::Postgres => {
            "SELECT setting::bigint / 1000 FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
        }
        _ => "SELECT CAST(@@SESSION.idle_transaction_timeout AS SIGNED)",
    };
    let mut tx = led.tenure.begin(&stage.pool(1)).await.unwrap();
    assert_eq!(DB::number(&mut tx, bound).await.unwrap(), 10);
    tx.rollback().await.unwrap();
    led.running.shutdown().await.unwrap();
}

async fn settings_are_local<DB: Sql>(stage: Stage<DB>) {
    const SETTINGS: [&str; 3] =
        ["idle_in_transaction_session_timeout", "tcp_user_timeout", "application_name"];
    let led = stage.lead().await;
    let pool = stage.pool(1);
    for (own_limit, inside) in [("0", "1500ms"), ("1min", "1500ms"), ("700ms", "700ms")] {
        let mut connection = pool.acquire().await.unwrap();
        let set = format!(
            "SET application_name = 'postman'; SET tcp_user_timeout = '90s'; \
             SET idle_in_transaction_session_timeout = '{own_limit}'"
        );
        DB::run(&mut connection, &set).await.unwrap();
        let pid = DB::number(&mut connection, "SELECT pg_backend_pid()::bigint").await.unwrap();
        drop(connection);
        for commit in [true, false] {
            let mut tx = led.tenure.begin(&pool).await.unwrap();
            let query = "SELECT pg_backend_pid()::bigint";
            assert_eq!(DB::number(&mut tx, query).await.unwrap(), pid);
            for (setting, value) in SETTINGS.into_iter().zip([inside, "1500"]) {
                let shown = format!("SHOW {setting}");
                let shown = DB::text(&mut tx, &shown).await.unwrap();
                assert_eq!(shown, value, "{setting} inside");
            }
            // As everybody sees it.
            let tag = format!("leader:{}:mail", led.tenure.term());
            let seen = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND application_name = '{tag}'"
            );
            assert_eq!(stage.database.number(&seen).await, 1);
            DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
            if commit {
                tx.commit().await.unwrap();
            } else {
                tx.rollback().await.unwrap();
            }
            let mut connection = pool.acquire().await.unwrap();
            for (setting, value) in SETTINGS.into_iter().zip([own_limit, "90000", "postman"]) {
                let shown = format!("SHOW {setting}");
                let shown = DB::text(&mut connection, &shown).await.unwrap();
                assert_eq!(shown, value, "{setting}");
            }
        }
    }
}

async fn variables_are_put_back<DB: Sql>(stage: Stage<DB>) {
    let led = stage.lead().await;
    let pool = stage.pool(1);
    // Each the application's own value, and what holds inside: the tighter of the two.
    for (own, inside) in
        [([0, 60, 30, 1], [1, 1, 1, 0]), ([300, 77, 88, 0], [1, 1, 1, 0]), ([1, 1, 1, 1], [1, 1, 1, 0])]
    {
        let set = VARIABLES.iter().zip(own).map(|(name, value)| format!("SESSION {name} = {value}"));
        let set = format!("SET {}", set.collect::<Vec<_>>().join(", "));
        let mut connection = pool.acquire().await.unwrap();
        DB::run(&mut connection, &set).await.unwrap();
        let id = DB::number(&mut connection, "SELECT CAST(connection_id() AS SIGNED)").await.unwrap();
        drop(connection);
        for commit in [true, false, true] {
            let mut tx = led.tenure.begin(&pool).await.unwrap();
            assert_eq!(variables::<DB>(&mut tx).await, inside);
            DB::run(&mut tx, &row(&led.tenure, 1)).await.unwrap();
            if commit {
                tx.commit().await.unwrap();
            } else {
                tx.rollback().await.unwrap();
            }
            let mut connection = pool.acquire().await.unwrap();
            assert_eq!(variables::<DB>(&mut connection).await, own);
            assert_eq!(
                DB::number(&mut connection, "SELECT CAST(connection_id() AS SIGNED)").await.unwrap(),
                id
            );
        }
    }
    // A transaction that is dropped closes its connection, and the next one is like any other.
    let untouched = variables::<DB>(&mut stage.pool(1).acquire().await.unwrap()).await;
    drop(led.tenure.begin(&pool).await.unwrap());
    let mut connection = pool.acquire().await.unwrap();
    assert_eq!(variables::<DB>(&mut connection).await, untouched);
}

const VARIABLES: [&str; 4] =
    ["idle_transaction_timeout", "net_write_timeout", "net_read_timeout", "autocommit"];

async fn variables<DB: Sql>(connection: &mut DB::Connection) -> [i64; 4] {
    let mut values = [0; 4];
    for (value, name) in values.iter_mut().zip(VARIABLES) {
        let query = format!("SELECT CAST(@@SESSION.{name} AS SIGNED)");
        *value = DB::number(connection, &query).await.unwrap();
    }
    values
}
