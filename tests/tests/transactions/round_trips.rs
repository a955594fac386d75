//! How often a fenced transaction waits for the server, beside one that is not fenced.

use leader_tests::harness::{Kind, PATIENCE, Proxy, Sql, To, eventually};
use sqlx::Pool;

use crate::{Stage, row, scenarios};

scenarios!(servers: the_fence_costs_few_round_trips);

async fn the_fence_costs_few_round_trips<DB: Sql>(stage: Stage<DB>) {
    const TIMES: i64 = 5;

    let led = stage.lead().await;
    let proxy = Proxy::to(&stage.database).await;
    let pool: Pool<DB> = DB::pool_to(proxy.url(), 1);
    // Dials.
    drop(pool.acquire().await.unwrap());
    let requests = async || {
        // The pool asks something more of a connection that comes back.
        let back = async || (pool.num_idle() == 1).then_some(());
        eventually("the connection in the pool", PATIENCE, back).await;
        let judged = proxy.judged();
        i64::try_from(judged.iter().filter(|judged| judged.message.to == To::Server).count()).unwrap()
    };

    let before = requests().await;
    for what in 0..TIMES {
        let mut tx = pool.begin().await.unwrap();
        DB::run(&mut *tx, &row(&led.tenure, what)).await.unwrap();
        tx.commit().await.unwrap();
    }
    let bare = requests().await - before;
    let before = requests().await;
    for what in 0..TIMES {
        let mut tx = led.tenure.begin(&pool).await.unwrap();
        DB::run(&mut tx, &row(&led.tenure, what)).await.unwrap();
        tx.commit().await.unwrap();
    }
    let fenced = requests().await - before;

    assert!(
        bare >= TIMES * 3,
        "{bare} requests for as many begins, inserts and commits are not counted right"
    );
    let most = if DB::KIND == Kind::Postgres { 0 } else { 2 };
    assert!(
        fenced <= bare + TIMES * most,
        "{fenced} requests of {TIMES} fenced transactions, {bare} of bare ones"
    );
    assert_eq!(proxy.connections(), 1, "all on one connection");
}
