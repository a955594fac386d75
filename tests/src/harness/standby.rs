//! A PostgreSQL server that replicates another one, and takes its place.

use std::time::{Duration, Instant};

use super::install;
use super::replica::PATIENCE;
use super::servers::Server;

impl Server {
    /// A standby of this PostgreSQL server, which replicates.
    ///
    /// # Panics
    ///
    /// As [`Server::own`].
    pub async fn standby(&self) -> Self {
        let primary = self.port();
        Self::started(self.kind(), move || install::standby(primary)).await
    }

    /// From now on this standby misses what its primary commits.
    ///
    /// # Panics
    ///
    /// When it still replicates after a while, or is none.
    pub async fn fall_behind(&self) {
        self.administer("ALTER SYSTEM SET primary_conninfo = ''").await.expect("the standby answers");
        self.administer("SELECT pg_reload_conf()").await.expect("the standby answers");
        self.until_not("EXISTS (SELECT FROM pg_stat_wal_receiver)", "the end of the replication").await;
    }

    /// Makes this standby a primary.
    ///
    /// # Panics
    ///
    /// When it is none after a while.
    pub async fn promote(&self) {
        self.administer("SELECT pg_promote()").await.expect("the standby answers");
        self.until_not("pg_is_in_recovery()", "the promotion").await;
    }

    async fn until_not(&self, condition: &str, what: &str) {
        let fails = format!("DO $$ BEGIN IF {condition} THEN RAISE EXCEPTION 'not yet'; END IF; END $$");
        let until = Instant::now() + PATIENCE;
        while let Err(error) = self.administer(&fails).await {
            assert!(Instant::now() < until, "waited {PATIENCE:?} in vain for {what}: {error:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
