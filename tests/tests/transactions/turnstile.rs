//! The turnstile between a keeper and whoever writes to the same SQLite file.

use std::fs::{File, TryLockError};
use std::time::Duration;

use leader_tests::harness::{PATIENCE, Sql, eventually};
use sqlx::Sqlite;
use tokio::time::Instant;

use crate::{Stage, scenarios};

scenarios!(sqlite: a_keeper_that_waits_closes_it, whoever_begins_waits_at_it_but_not_for_long);

impl Stage<Sqlite> {
    fn turnstile(&self) -> File {
        let options = self.eyes.connect_options();
        let mut file = options.get_filename().as_os_str().to_owned();
        file.push("-leader");
        File::options().write(true).open(file).expect("it is made with the first election")
    }

    async fn is_closed(&self, closed: bool) {
        let turnstile = self.turnstile();
        eventually("the turnstile to change", PATIENCE, async || {
            let now = matches!(turnstile.try_lock(), Err(TryLockError::WouldBlock));
            let _ = turnstile.unlock();
            (now == closed).then_some(())
        })
        .await;
    }
}

async fn a_keeper_that_waits_closes_it(stage: Stage<Sqlite>) {
    let led = stage.lead().await;
    // A release makes the file.
    led.running.step_down(crate::NAME).await.unwrap();
    stage.is_closed(false).await;
    let mut writer = stage.eyes.acquire().await.unwrap();
    Sqlite::run(&mut writer, "BEGIN IMMEDIATE").await.unwrap();
    stage.is_closed(true).await;
    Sqlite::run(&mut writer, "ROLLBACK").await.unwrap();
    stage.is_closed(false).await;
    led.running.shutdown().await.unwrap();
}

async fn whoever_begins_waits_at_it_but_not_for_long(stage: Stage<Sqlite>) {
    /// A hundred looks, a millisecond at least from one to the next.
    const LEAST: Duration = Duration::from_millis(100);

    let led = stage.lead().await;
    let pool = stage.pool(1);
    led.tenure.begin(&pool).await.unwrap().commit().await.unwrap();
    let turnstile = stage.turnstile();
    turnstile.lock().unwrap();
    let begun = Instant::now();
    led.tenure.begin(&pool).await.unwrap().commit().await.unwrap();
    assert!(begun.elapsed() >= LEAST, "{:?}", begun.elapsed());
    turnstile.unlock().unwrap();
    led.running.shutdown().await.unwrap();
}
