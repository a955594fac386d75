//! The outbox relay under fire: its leaders die, freeze and stop between send and mark, and 10,000 records arrive all the
//! same, each marked once.

mod receiver;

use std::collections::{BTreeMap, BTreeSet};

use leader_tests::harness::{Deployment, Kind, Launch, Lock, PATIENCE, TestDatabase, eventually};

use receiver::{Batch, Receiver};

#[tokio::test]
async fn postgres() {
    nothing_is_lost_and_nothing_marked_twice(Kind::Postgres).await;
}

#[tokio::test]
async fn sqlite() {
    nothing_is_lost_and_nothing_marked_twice(Kind::Sqlite).await;
}

const RECORDS: usize = 10_000;
const KEYS: usize = 7;
/// As many as the relay sends together.
const BATCH: usize = 50;
/// How many tenures the test ends between a send and its mark.
const CUT_AFTER_A_SEND: usize = 3;

async fn nothing_is_lost_and_nothing_marked_twice(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let receiver = Receiver::start().await;
    let launch = Launch::bare(env!("CARGO_BIN_EXE_outbox_relay"))
        .flag("--database-url", &database.url)
        .flag("--receiver", &receiver.url)
        .flag("--lease", "2");
    let replicas = Deployment::start(&database, launch, "outbox_relay", 3).await;
    let mut relay = Relay { outbox: Outbox::new(&database).await, receiver, replicas };

    relay.dies_after_the_send().await;
    relay.freezes_in_the_mark().await;
    relay.stops_after_the_send().await;
    relay.freezes_before_the_send().await;
    relay.dies_while_it_sends().await;
    relay.outbox.sent().await;

    let marks = database.number("SELECT count(*) FROM marks").await;
    assert_eq!(usize::try_from(marks), Ok(RECORDS), "each record is marked once");
    relay.replicas.shut_down().await;
    let batches = relay.receiver.batches();
    assert_received(&batches);
    assert_sent_again_only_at_the_end_of_a_tenure(&batches);
}

struct Relay<'d> {
    outbox: Outbox<'d>,
    receiver: Receiver,
    replicas: Deployment<'d>,
}

impl Relay<'_> {
    async fn dies_after_the_send(&mut self) {
        let mut held = self.receiver.hold();
        self.outbox.write(1_500).await;
        let term = held.arrived().await;
        let leader = self.replicas.leader().await;
        assert_eq!(leader.term, term);
        self.replicas.kill(leader.pid).await;
        drop(held);
        self.outbox.sent().await;
    }

    /// It wakes up while its successor has sent the same records and not marked them yet.
    async fn freezes_in_the_mark(&mut self) {
        let mut held = self.receiver.hold();
        self.outbox.write(1_500).await;
        held.arrived().await;
        let leader = self.replicas.leader().await;
        let lock =
            Lock::take(self.outbox.database, "SELECT * FROM outbox WHERE sent_at IS NULL FOR UPDATE").await;
        drop(held);
        lock.is_waited_for_in([leader]).await;
        self.replicas.freeze_leading(leader);
        let mut held = self.receiver.hold();
        lock.release().await;

        assert!(held.arrived().await > leader.term, "sent by a successor");
        self.replicas.wake(leader).await;
        drop(held);
        self.outbox.sent().await;
    }

    async fn stops_after_the_send(&mut self) {
        let mut held = self.receiver.hold();
        self.outbox.write(1_500).await;
        held.arrived().await;
        let leader = self.replicas.leader().await;
        self.replicas.stop(leader.pid).await;
        drop(held);
        self.outbox.sent().await;
    }

    /// It reads what is pending, and wakes up while its successor has sent that and not marked it yet.
    async fn freezes_before_the_send(&mut self) {
        let leader = self.replicas.leader().await;
        let mut lock = Lock::take(self.outbox.database, "LOCK TABLE outbox").await;
        lock.is_waited_for().await;
        for insert in self.outbox.inserts(1_500) {
            lock.run(&insert).await;
        }
        self.replicas.freeze_leading(leader);
        let mut held = self.receiver.hold();
        lock.release().await;

        let term = held.arrived().await;
        assert!(term > leader.term, "sent by a successor");
        self.replicas.wake(leader).await;
        drop(held);
        self.outbox.sent().await;
    }

    async fn dies_while_it_sends(&mut self) {
        self.outbox.write(RECORDS - self.outbox.written - 500).await;
        let leader = self.replicas.leader().await;
        self.replicas.kill(leader.pid).await;
        self.outbox.write(500).await;
    }
}

/// The table, from the side of those who write into it.
struct Outbox<'d> {
    database: &'d TestDatabase,
    written: usize,
}

impl<'d> Outbox<'d> {
    /// The relay has made the table. From now on every mark is counted.
    async fn new(database: &'d TestDatabase) -> Self {
        let trigger = match database.kind {
            Kind::Sqlite => {
                "CREATE TRIGGER marked AFTER UPDATE ON outbox BEGIN INSERT INTO marks VALUES (new.id); END"
            }
            _ => {
                "CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \
                 'BEGIN INSERT INTO marks VALUES (new.id); RETURN NULL; END'; \
                 CREATE TRIGGER marked AFTER UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION mark()"
            }
        };
        database.execute(&format!("CREATE TABLE marks (id BIGINT NOT NULL); {trigger}")).await;
        Self { database, written: 0 }
    }

    async fn write(&mut self, records: usize) {
        for insert in self.inserts(records) {
            self.database.execute(&insert).await;
        }
    }

    /// The statements that write that many more.
    fn inserts(&mut self, records: usize) -> Vec<String> {
        let first = self.written;
        self.written += records;
        let rows: Vec<_> =
            (first..self.written).map(|n| format!("('key {}', 'payload {n}')", n % KEYS)).collect();
        let insert =
            |rows: &[String]| format!("INSERT INTO outbox (key, payload) VALUES {}", rows.join(", "));
        rows.chunks(100).map(insert).collect()
    }

    /// Waits until everything that was written is marked as sent.
    async fn sent(&self) {
        let none_is_left = async || {
            let left = self.database.number("SELECT count(*) FROM outbox WHERE sent_at IS NULL").await;
            (left == 0).then_some(())
        };
        eventually("the last mark", PATIENCE, none_is_left).await;
    }
}

/// Everything arrived, in the order of each key.
#[track_caller]
fn assert_received(batches: &[Batch]) {
    let mut keys = BTreeMap::<&str, Vec<&str>>::new();
    let mut known = BTreeSet::new();
    for record in batches.iter().flat_map(|batch| &batch.records) {
        if known.insert(record.id) {
            keys.entry(&record.key).or_default().push(&record.payload);
        }
    }
    for key in 0..KEYS {
        let right: Vec<_> =
            (0..RECORDS).filter(|n| n % KEYS == key).map(|n| format!("payload {n}")).collect();
        assert_eq!(keys[format!("key {key}").as_str()], right);
    }
}

/// What arrived twice is the last batch of a tenure, which ended between its send and its mark.
#[track_caller]
fn assert_sent_again_only_at_the_end_of_a_tenure(batches: &[Batch]) {
    assert!(batches.is_sorted_by_key(|batch| batch.term), "sent after a successor had");
    let mut marked = BTreeSet::new();
    for (at, batch) in batches.iter().enumerate() {
        let ids: BTreeSet<_> = batch.records.iter().map(|record| record.id).collect();
        assert!(marked.is_disjoint(&ids), "sent again though it was marked: {batch:?}");
        if batches.get(at + 1).is_some_and(|next| next.term == batch.term) {
            marked.extend(ids);
        }
    }
    let arrived: usize = batches.iter().map(|batch| batch.records.len()).sum();
    let again = arrived - RECORDS;
    let tenures = batches.chunk_by(|one, next| one.term == next.term).count();
    println!("{again} of {arrived} records arrived again, in {tenures} tenures");
    assert!((CUT_AFTER_A_SEND * BATCH..tenures * BATCH).contains(&again), "{again} in {tenures} tenures");
}
