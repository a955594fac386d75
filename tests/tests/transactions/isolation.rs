//! Whatever isolation level the server's default is: elections, renewals and fenced transactions work.

use leader::EventKind;
use leader_tests::harness::local::{Events, FAST, Puppet};
use leader_tests::harness::{Kind, Sql, TestDatabase};
use tokio::time::Instant;

use crate::{NAME, Stage, row, scenarios};

scenarios!(servers: serializable, repeatable_read);

async fn serializable<DB: Sql>(shared: Stage<DB>) {
    works_at(shared, "SERIALIZABLE").await;
}

async fn repeatable_read<DB: Sql>(shared: Stage<DB>) {
    works_at(shared, "REPEATABLE READ").await;
}

async fn works_at<DB: Sql>(shared: Stage<DB>, level: &str) {
    // MariaDB knows defaults of the whole server only.
    drop(shared);
    let (database, _server) = TestDatabase::create_on_own_server(DB::KIND).await;
    let default = match DB::KIND {
        Kind::Postgres => {
            let name = database.url.rsplit('/').next().unwrap();
            format!("ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
        }
        _ => format!("SET GLOBAL TRANSACTION ISOLATION LEVEL {level}"),
    };
    database.execute(&default).await;
    let stage = Stage::<DB>::on(database).await;
    let pool = stage.pool(2);
    let mut connection = pool.acquire().await.unwrap();
    let shown = match DB::KIND {
        Kind::Postgres => "SHOW transaction_isolation",
        _ => "SELECT @@SESSION.tx_isolation",
    };
    let shown = DB::text(&mut connection, shown).await.unwrap();
    assert_eq!(shown.replace('-', " ").to_uppercase(), level);
    drop(connection);

    let (first, second) = (Events::default(), Events::default());
    let mut puppet = Puppet::default();
    let mut electors = Vec::new();
    for (instance, events) in [("first", &first), ("second", &second)] {
        let elector = stage.elector(instance, events);
        electors.push(elector.work(NAME, puppet.work()).start().await.unwrap());
    }
    let mut leads = None;
    for _ in 0..3 {
        let tenure = puppet.tenure().await;
        assert!(Some(tenure.term()) > leads);
        leads = Some(tenure.term());
        // Renewals go on beside transactions that read and write, for longer than a lease.
        let until = Instant::now() + FAST.lease * 2;
        let mut commits = 0;
        while Instant::now() < until {
            let mut tx = tenure.begin(&pool).await.unwrap();
            DB::number(&mut tx, "SELECT count(*) FROM written").await.unwrap();
            DB::run(&mut tx, &row(&tenure, 0)).await.unwrap();
            tx.commit().await.unwrap();
            commits += 1;
        }
        let written = format!("SELECT count(*) FROM written WHERE term = {}", tenure.term());
        assert_eq!(stage.number(&written).await, commits);
        // To whoever is faster.
        let of = electors.iter().find(|elector| elector.status().instance.as_ref() == tenure.instance());
        of.unwrap().step_down(NAME).await.unwrap();
    }
    for events in [first, second] {
        assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
    }
}
