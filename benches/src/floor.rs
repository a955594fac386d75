//! What the database itself takes, measured in the same run: nothing on it can be faster.

use std::time::Instant;

use leader_tests::harness::Sql;
use serde::{Deserialize, Serialize};
use sqlx::pool::PoolConnection;

use crate::stats::{Samples, Summary, short};

/// Two connections of its own that take samples: whoever gives something back is not who takes it.
#[derive(Debug)]
pub struct Floor<DB: Sql> {
    giving: PoolConnection<DB>,
    taking: PoolConnection<DB>,
    table: String,
    first_commit: Samples,
    round_trip: Samples,
    second_commit: Samples,
    whole: Samples,
}

impl<DB: Sql> Floor<DB> {
    /// Makes a table of one row.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn lay(url: &str) -> anyhow::Result<Self> {
        let pool = DB::pool_to(url, 2);
        let (mut giving, taking) = (pool.acquire().await?, pool.acquire().await?);
        let table = format!("leader_bench_{:08x}", fastrand::u32(..));
        let create = format!(
            "CREATE TABLE {table} (id BIGINT PRIMARY KEY, n BIGINT); INSERT INTO {table} VALUES (1, 0)"
        );
        DB::run(&mut giving, &create).await?;
        let [first_commit, round_trip, second_commit, whole] = Default::default();
        Ok(Self { giving, taking, table, first_commit, round_trip, second_commit, whole })
    }

    /// Takes one sample: a commit, two round trips and a commit, one after another. It is fair only after the same pause as
    /// what it is compared with: a server that was idle takes longer for its first commit.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn sample(&mut self) -> anyhow::Result<()> {
        let commit = format!("UPDATE {} SET n = n + 1 WHERE id = 1", self.table);
        let began = Instant::now();
        timed::<DB>(&mut self.giving, &commit, &mut self.first_commit).await?;
        timed::<DB>(&mut self.taking, "SELECT 1", &mut self.round_trip).await?;
        timed::<DB>(&mut self.taking, "SELECT 1", &mut self.round_trip).await?;
        timed::<DB>(&mut self.taking, &commit, &mut self.second_commit).await?;
        self.whole.record(began.elapsed());
        Ok(())
    }

    /// What the samples say. The table goes.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn finish(mut self) -> anyhow::Result<FloorTimes> {
        DB::run(&mut self.giving, &format!("DROP TABLE {}", self.table)).await?;
        Ok(FloorTimes {
            first_commit: self.first_commit.millis(),
            round_trip: self.round_trip.millis(),
            second_commit: self.second_commit.millis(),
            whole: self.whole.millis(),
        })
    }
}

async fn timed<DB: Sql>(
    connection: &mut PoolConnection<DB>,
    statement: &str,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let began = Instant::now();
    DB::run(connection, statement).await?;
    samples.record(began.elapsed());
    Ok(())
}

/// How long the database takes for the least there is, in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FloorTimes {
    /// An autocommit update of one row, on the disk, by a server that was idle.
    pub first_commit: Summary,
    /// `SELECT 1`.
    pub round_trip: Summary,
    /// Another such update, by another connection right after.
    pub second_commit: Summary,
    /// The first commit, two round trips and the second commit, one after another.
    pub whole: Summary,
}

impl FloorTimes {
    /// The rows of a table that has a summary for its columns.
    pub fn rows(&self) -> String {
        let Self { first_commit, round_trip, second_commit, whole } = self;
        format!(
            "| floor: commit of one row after the same pause | {first_commit} |\n\
             | floor: `SELECT 1` | {round_trip} |\n\
             | floor: another commit right after | {second_commit} |\n\
             | floor: 2 commits and 2 round trips, one after another | {whole} |\n"
        )
    }

    /// A median beside the floor's.
    pub fn compare(&self, p50: f64) -> String {
        let floor = self.whole.p50;
        format!("p50 is {} × the floor ({} ms)", short(p50 / floor), short(floor))
    }
}
