//! Replicas that were frozen with the default timings: for a moment, past the deadline, and past the expiry of the lease.

use std::time::Duration;

use leader_tests::harness::database::LedgerRow;
use leader_tests::harness::{Event, Launch, PATIENCE, Replica, TestDatabase, eventually, now_ms};

use crate::{assert_in_order, assert_within, default_timings, side_by_side, started};

const SHORT: Duration = Duration::from_secs(5);
/// Past the deadline of 10 s, and before the lease of 15 s expires.
const UNSURE: Duration = Duration::from_secs(12);
const LONG: Duration = Duration::from_secs(20);

/// How long a process that wakes up goes without a look at its clock.
const TICK: Duration = Duration::from_millis(250);
/// What a busy machine may be late.
const LATE: Duration = Duration::from_millis(500);

/// Side by side, as nearly all of it is waiting.
#[tokio::test]
async fn after_5_12_and_20_seconds_on_every_database() {
    let [postgres, mysql, sqlite] = side_by_side().await;
    tokio::join!(on(&postgres), on(&mysql), on(&sqlite));
}

async fn on(database: &TestDatabase) {
    let [short, unsure, long] = [SHORT, UNSURE, LONG].map(|length| Sleeper::start(database, length));
    for sleeper in [&short, &unsure, &long] {
        sleeper.leads(database).await;
    }
    let standby = [SHORT, UNSURE, LONG].into_iter().fold(default_timings(database), works).start();
    started(&standby).await;
    tokio::join!(
        nothing_happens(database, &short, &standby),
        it_has_lost_before_anybody_won(database, &unsure, &standby),
        it_was_taken_over(database, &long, &standby),
    );
}

async fn nothing_happens(database: &TestDatabase, sleeper: &Sleeper, standby: &Replica) {
    let woke = sleeper.sleep(database).await;
    let rows = woke.rows.len();
    let more = async || (sleeper.rows(database).await.len() >= rows + 10).then_some(());
    eventually("ten more rows of the same term", PATIENCE, more).await;
    assert!(!sleeper.replica.events().iter().any(|event| event.is("lost")), "{}", sleeper.replica);
    assert!(sleeper.elections(standby).is_empty(), "{standby}");
}

async fn it_has_lost_before_anybody_won(database: &TestDatabase, sleeper: &Sleeper, standby: &Replica) {
    let woke = sleeper.sleep(database).await;
    assert!(
        sleeper.elections(standby).iter().all(|at_ms| *at_ms >= woke.at_ms),
        "woken at {woke:?}: {standby}"
    );
    sleeper.is_told(&woke).await;
    sleeper.has_a_successor(database, standby).await;
    assert_eq!(sleeper.rows(database).await, woke.rows, "it wrote on: {}", sleeper.replica);
}

async fn it_was_taken_over(database: &TestDatabase, sleeper: &Sleeper, standby: &Replica) {
    let woke = sleeper.sleep(database).await;
    let elections = sleeper.elections(standby);
    assert_eq!(elections.len(), 2, "{standby}");
    assert!(elections.iter().all(|at_ms| *at_ms < woke.at_ms), "woken at {woke:?}: {standby}");
    sleeper.is_told(&woke).await;
    sleeper.has_a_successor(database, standby).await;
    assert_eq!(sleeper.rows(database).await, woke.rows, "it wrote on: {}", sleeper.replica);
}

/// The two works of a sleeper of this length: one writes, and one waits to be told.
fn works(launch: Launch, length: Duration) -> Launch {
    launch.work(&writing(length), "ledger").work(&waiting(length), "idle")
}

fn writing(length: Duration) -> String {
    format!("{length:?} writing")
}

fn waiting(length: Duration) -> String {
    format!("{length:?} waiting")
}

/// A replica that will be frozen for this long.
struct Sleeper {
    replica: Replica,
    length: Duration,
}

/// What was there when it was woken.
#[derive(Debug)]
struct Woke {
    at_ms: i64,
    /// All that it had written.
    rows: Vec<LedgerRow>,
}

impl Sleeper {
    fn start(database: &TestDatabase, length: Duration) -> Self {
        let launch = works(default_timings(database), length).instance(&format!("{length:?}"));
        Self { replica: launch.start(), length }
    }

    async fn leads(&self, database: &TestDatabase) {
        for name in [waiting(self.length), writing(self.length)] {
            self.replica.wait("its election", |event| event.is_of("elected", &name)).await;
        }
        eventually("a row", PATIENCE, async || self.rows(database).await.pop()).await;
    }

    /// Frozen right after a renewal, and woken again.
    async fn sleep(&self, database: &TestDatabase) -> Woke {
        let frozen = async || {
            self.renewed(database).await;
            self.replica.freeze();
            // A frozen writer blocks every writer of a SQLite file, which is another story.
            if database.is_held_up().await {
                self.replica.wake();
                return None;
            }
            Some(())
        };
        eventually("a moment between two transactions", PATIENCE, frozen).await;
        tokio::time::sleep(self.length).await;
        let rows = self.rows(database).await;
        let at_ms = now_ms();
        self.replica.wake();
        Woke { at_ms, rows }
    }

    async fn renewed(&self, database: &TestDatabase) {
        let expiry = async || {
            let sessions = database.sessions().await;
            let own = sessions.iter().find(|session| session.instance == format!("{:?}", self.length));
            own.map(|session| session.expires_at_ms)
        };
        let before = expiry().await;
        eventually("a renewal", PATIENCE, async || (expiry().await != before).then_some(())).await;
    }

    async fn rows(&self, database: &TestDatabase) -> Vec<LedgerRow> {
        let (name, instance) = (writing(self.length), format!("{:?}", self.length));
        let mut rows = database.ledger().await;
        rows.retain(|row| row.name == name && row.instance == instance);
        rows
    }

    /// When the standby was elected to its works.
    fn elections(&self, standby: &Replica) -> Vec<i64> {
        let names = [writing(self.length), waiting(self.length)];
        let is_one = |event: &Event| names.iter().any(|name| event.is_of("elected", name));
        standby.events().into_iter().filter(is_one).map(|event| event.at_ms).collect()
    }

    /// Both works hear of the loss at once, and obey.
    async fn is_told(&self, woke: &Woke) {
        for name in [writing(self.length), waiting(self.length)] {
            let lost = self.replica.wait("the loss", |event| event.is_of("lost", &name)).await;
            assert_within(
                TICK + LATE,
                woke.at_ms,
                lost.at_ms,
                &format!("from waking to telling, {}", self.replica),
            );
            let end = self.replica.wait("the end", |event| event.is_of("stepped_down", &name)).await;
            assert_eq!(end.reason.as_deref(), Some("lease lost"));
        }
        assert_eq!(self.replica.exited(), None, "{}", self.replica);
    }

    /// The standby is elected, and nothing of an older term follows what it writes.
    async fn has_a_successor(&self, database: &TestDatabase, standby: &Replica) {
        let name = writing(self.length);
        let next = standby.wait("the successor", |event| event.is_of("elected", &name)).await;
        let rows = async || {
            let mut rows = database.ledger().await;
            rows.retain(|row| row.name == name);
            rows
        };
        let more = async || {
            let rows = rows().await;
            let of_next = rows.iter().filter(|row| row.term == next.term());
            (of_next.count() >= 10).then_some(rows)
        };
        assert_in_order(&eventually("ten rows of the successor", PATIENCE, more).await);
    }
}
