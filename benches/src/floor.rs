//! What the database itself takes, measured in the same run: nothing on it can be faster.

use std::time::Instant;

use leader_tests::harness::Sql;
use serde::{Deserialize, Serialize};
use sqlx::pool::PoolConnection;

use crate::stats::{Samples, Summary, short};

/// A connection of its own that takes samples.
#[derive(Debug)]
pub struct Floor<DB: Sql> {
    connection: PoolConnection<DB>,
    table: String,
    commits: Samples,
    round_trips: Samples,
}

impl<DB: Sql> Floor<DB> {
    /// Makes a table of one row.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn lay(url: &str) -> anyhow::Result<Self> {
        let mut connection = DB::pool_to(url, 1).acquire().await?;
        let table = format!("leader_bench_{:08x}", fastrand::u32(..));
        let create = format!(
            "CREATE TABLE {table} (id BIGINT PRIMARY KEY, n BIGINT); INSERT INTO {table} VALUES (1, 0)"
        );
        DB::run(&mut connection, &create).await?;
        Ok(Self { connection, table, commits: Samples::default(), round_trips: Samples::default() })
    }

    /// Takes one sample of each.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn sample(&mut self) -> anyhow::Result<()> {
        let commit = format!("UPDATE {} SET n = n + 1 WHERE id = 1", self.table);
        for (statement, samples) in
            [(commit.as_str(), &mut self.commits), ("SELECT 1", &mut self.round_trips)]
        {
            let began = Instant::now();
            DB::run(&mut self.connection, statement).await?;
            samples.record(began.elapsed());
        }
        Ok(())
    }

    /// What the samples say. The table goes.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn finish(mut self) -> anyhow::Result<FloorTimes> {
        DB::run(&mut self.connection, &format!("DROP TABLE {}", self.table)).await?;
        Ok(FloorTimes { commit: self.commits.millis(), round_trip: self.round_trips.millis() })
    }
}

/// How long the database takes for the least there is, in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FloorTimes {
    /// An autocommit update of one row, on the disk.
    pub commit: Summary,
    /// `SELECT 1`.
    pub round_trip: Summary,
}

impl FloorTimes {
    /// Medians of so many commits and round trips together.
    pub fn of(&self, commits: u32, round_trips: u32) -> f64 {
        f64::from(commits) * self.commit.p50 + f64::from(round_trips) * self.round_trip.p50
    }

    /// The rows of a table that has a summary for its columns.
    pub fn rows(&self) -> String {
        format!(
            "| floor: commit of one row | {} |\n| floor: `SELECT 1` | {} |\n",
            self.commit, self.round_trip
        )
    }

    /// A median beside so many commits and round trips.
    pub fn compare(&self, p50: f64, commits: u32, round_trips: u32) -> String {
        let floor = self.of(commits, round_trips);
        format!(
            "p50 is {} × the floor of {commits} commits and {round_trips} round trips ({} ms)",
            short(p50 / floor),
            short(floor)
        )
    }
}
