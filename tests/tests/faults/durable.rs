//! What the keeper writes survives a crash of the server, whatever the database's defaults are: a renewal that is forgotten
//! is a lease that two replicas believe in.

use leader_tests::harness::{Kind, TestDatabase};

use crate::{NAME, lead};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synchronous_commit_is_on_on_postgres() {
    let database = TestDatabase::create(Kind::Postgres).await;
    let name = database.url.rsplit('/').next().expect("a name");
    database.execute(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).await;
    let note = "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         INSERT INTO durability VALUES (TG_OP || ' ' || TG_TABLE_NAME, current_setting('synchronous_commit')); \
         RETURN NULL; END $$";
    noted(&database, note, |change, table| {
        format!("CREATE TRIGGER note_{change}_{table} AFTER {change} ON {table} FOR EACH ROW EXECUTE FUNCTION note()")
    })
    .await;
    assert_eq!(database.number("SELECT count(*) FROM durability WHERE value <> 'on'").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synchronous_is_full_on_sqlite() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    noted(&database, "SELECT 1", |change, table| {
        format!(
            "CREATE TRIGGER note_{change}_{table} AFTER {change} ON {table} BEGIN \
             INSERT INTO durability SELECT '{change} {table}', synchronous FROM pragma_synchronous; END"
        )
    })
    .await;
    let full = "SELECT count(*) FROM durability WHERE value <> '2'";
    assert_eq!(database.number(full).await, 0);
}

/// A tenure is renewed, given back, claimed again and closed, and each change notes how durable it is.
async fn noted(database: &TestDatabase, set_up: &str, trigger: impl Fn(&str, &str) -> String) {
    let mut led = lead(&database.url, "first").await;
    database.execute("CREATE TABLE durability (change varchar(50), value varchar(10))").await;
    database.execute(set_up).await;
    if database.kind == Kind::Postgres {
        database.execute("GRANT INSERT ON durability TO PUBLIC").await;
    }
    for (change, table) in
        [("UPDATE", "leader_sessions"), ("DELETE", "leader_sessions"), ("UPDATE", "leader_names")]
    {
        database.execute(&trigger(change, table)).await;
    }
    led.running.step_down(NAME).await.unwrap();
    led.puppet.tenure().await;
    led.running.shutdown().await.unwrap();
    assert_eq!(database.number("SELECT count(DISTINCT change) FROM durability").await, 3);
}
