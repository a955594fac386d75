//! One work, elected through a SQLite file. Run it twice side by side: one replica works, the other stands by and takes
//! over when you stop or kill the first.

use std::io::IsTerminal;
use std::time::Duration;

use leader::{State, Tenure};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use tracing_subscriber::EnvFilter;

#[leader::work("ticker")]
async fn ticker(tenure: Tenure, State(pool): State<SqlitePool>) -> anyhow::Result<()> {
    loop {
        // Commits only if no other replica has been elected since.
        let mut tx = tenure.begin(&pool).await?;
        sqlx::query("INSERT INTO ticks (term) VALUES (?)")
            .bind(tenure.term().get())
            .execute(&mut *tx)
            .await?;
        let ticks: i64 = sqlx::query_scalar("SELECT count(*) FROM ticks").fetch_one(&mut *tx).await?;
        tx.commit().await?;
        println!("tick {ticks} under term {}", tenure.term());

        // Returns the ending as an error when it comes, and so ends the work.
        tenure.sleep(Duration::from_secs(1)).await?;
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "leader=info".into()))
        .with_timer(tracing_subscriber::fmt::time::uptime())
        .with_ansi(std::io::stdout().is_terminal())
        .with_target(false)
        .init();

    let file = SqliteConnectOptions::new()
        .filename("quickstart.db")
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePool::connect_with(file).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS ticks (id INTEGER PRIMARY KEY, term INTEGER NOT NULL)")
        .execute(&pool)
        .await?;

    leader::Elector::builder()
        .database(&pool)
        .state(pool)
        .run() // until Ctrl-C or SIGTERM
        .await?;
    Ok(())
}
