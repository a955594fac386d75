//! A replica that is asked to stop while it starts leaves nothing behind.

use leader_tests::harness::{Fate, Kind, PATIENCE, Proxy, Statement, TestDatabase, To, eventually};

use crate::{launch, scenarios};

scenarios!(servers: its_session_is_closed);

async fn its_session_is_closed(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let proxy = Proxy::to(&database).await;
    proxy.each(To::Client, Statement::Open, Fate::Hold);
    let replica = launch(proxy.url()).work("mail", "idle").start();
    proxy.wait("an answer to hold back", |judged| judged.fate == Fate::Hold).await;
    assert_eq!(database.sessions().await.len(), 1, "it is open, and the replica does not know yet");

    replica.term();
    let told = async || replica.log().contains("ending gracefully").then_some(());
    eventually("that it was told", PATIENCE, told).await;
    proxy.pass();
    assert_eq!(replica.wait_exit().await, Some(0), "{replica}");
    assert_eq!(database.sessions().await, [], "{replica}");
}
