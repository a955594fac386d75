//! A loop around PostgreSQL's advisory locks, as people write it by hand.

use std::time::Duration;

use leader_tests::harness::Sql;
use sqlx::pool::PoolConnection;
use sqlx::{Postgres, query_scalar};

use crate::contend::{Loop, Options};

/// The locks live as long as the connection. A server notices at once that a process died, and not for hours that its
/// machine did.
pub struct Advisory(PoolConnection<Postgres>);

impl Loop for Advisory {
    const PERIOD: Duration = Duration::from_secs(1);

    async fn dial(options: &Options) -> anyhow::Result<Self> {
        Ok(Self(Postgres::pool_to(&options.url, 1).acquire().await?))
    }

    async fn take(&mut self, name: &str) -> anyhow::Result<bool> {
        let take = query_scalar("SELECT pg_try_advisory_lock(hashtextextended($1, 0))");
        Ok(take.bind(name).fetch_one(&mut *self.0).await?)
    }

    /// Whether the connection is still there.
    async fn keep(&mut self, _: &str) -> anyhow::Result<bool> {
        Ok(query_scalar("SELECT true").fetch_one(&mut *self.0).await?)
    }

    async fn give_back(&mut self, name: &str) -> anyhow::Result<()> {
        let give_back = query_scalar("SELECT pg_advisory_unlock(hashtextextended($1, 0))");
        let _: bool = give_back.bind(name).fetch_one(&mut *self.0).await?;
        Ok(())
    }
}
