//! Who leads what, by the tables.

use std::time::{Duration, SystemTime};

use leader::{Elector, Lease, Tenure};
use leader_tests::harness::{Kind, TestDatabase};

async fn status(database: &TestDatabase) -> Vec<Lease> {
    let leases = match database.kind {
        Kind::Postgres => leader::status(database.postgres().expect("its pool")).await,
        Kind::MySql => leader::status(database.mysql().expect("its pool")).await,
        Kind::Sqlite => leader::status(database.sqlite().expect("its pool")).await,
    };
    leases.expect("answered")
}

#[tokio::test]
async fn it_names_the_replica_that_leads() {
    for kind in Kind::ALL {
        let database = TestDatabase::create(kind).await;
        let running = Elector::builder()
            .without_annotated()
            .database(&database.url)
            .namespace("shop")
            .instance("replica-7")
            .work("mail", |tenure: Tenure| async move {
                tenure.ended().await;
            })
            .start()
            .await
            .expect("started");
        let mut changes = running.subscribe();
        changes.wait_for(|status| status.leading().count() == 1).await.expect("it leads");

        let leases = status(&database).await;
        let [lease] = leases.as_slice() else { panic!("{kind}: {leases:?}") };
        assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("shop", "mail"), "{kind}");
        let holder = lease.holder.as_ref().expect("it is held");
        assert_eq!(holder.instance, "replica-7");
        assert_eq!(Some(&holder.session), running.status().session.as_ref());
        assert!(holder.expires_in > Duration::from_secs(5) && holder.expires_in <= Duration::from_secs(15));
        let age = SystemTime::now().duration_since(lease.elected_at.expect("elected")).unwrap_or_default();
        assert!(age < Duration::from_mins(1), "{kind}: {age:?}");
        let term = lease.term;
        assert!(term.get() > 0);

        running.shutdown().await.expect("shut down");
        let leases = status(&database).await;
        let [lease] = leases.as_slice() else { panic!("{kind}: {leases:?}") };
        assert_eq!((lease.holder.as_ref(), lease.term), (None, term), "{kind}");
    }
}
