//! A lease a row and a renewal a name, as people write it by hand, with the default timings of `leader`.

use std::time::Duration;

use leader_tests::harness::Sql;
use sqlx::pool::PoolConnection;
use sqlx::{Postgres, query};

use crate::contend::{Loop, Options};

/// Rows with a holder and an expiry.
pub struct Rows {
    connection: PoolConnection<Postgres>,
    me: String,
}

const TABLE: &str = "SELECT pg_advisory_xact_lock(1); \
     CREATE TABLE IF NOT EXISTS leases (name text PRIMARY KEY, holder text, expires timestamptz NOT NULL)";
const TAKE: &str = "INSERT INTO leases VALUES ($1, $2, clock_timestamp() + '15 s') ON CONFLICT (name) DO UPDATE \
     SET holder = $2, expires = clock_timestamp() + '15 s' WHERE leases.holder IS NULL OR leases.expires < clock_timestamp()";
const KEEP: &str = "UPDATE leases SET expires = clock_timestamp() + '15 s' \
     WHERE name = $1 AND holder = $2 AND expires > clock_timestamp()";
const GIVE_BACK: &str = "UPDATE leases SET holder = NULL WHERE name = $1 AND holder = $2";

impl Rows {
    async fn write(&mut self, statement: &'static str, name: &str) -> anyhow::Result<bool> {
        let written = query(statement).bind(name).bind(&self.me).execute(&mut *self.connection).await?;
        Ok(written.rows_affected() == 1)
    }
}

impl Loop for Rows {
    const PERIOD: Duration = Duration::from_secs(2);

    async fn dial(options: &Options) -> anyhow::Result<Self> {
        let mut connection = Postgres::pool_to(&options.url, 1).acquire().await?;
        Postgres::run(&mut connection, TABLE).await?;
        Ok(Self { connection, me: format!("{:016x}", fastrand::u64(..)) })
    }

    async fn take(&mut self, name: &str) -> anyhow::Result<bool> {
        self.write(TAKE, name).await
    }

    async fn keep(&mut self, name: &str) -> anyhow::Result<bool> {
        self.write(KEEP, name).await
    }

    async fn give_back(&mut self, name: &str) -> anyhow::Result<()> {
        self.write(GIVE_BACK, name).await.map(drop)
    }
}
