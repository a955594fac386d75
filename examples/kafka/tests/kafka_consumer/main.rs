//! The Kafka consumer under fire: its leaders die, freeze and stop, its brokers go away, and 10,000 records of six
//! partitions are applied all the same, each once and in the order of its partition.

mod cluster;

use leader_tests::harness::deployment::Leader;
use leader_tests::harness::{Deployment, Kind, Launch, Lock, PATIENCE, TestDatabase, eventually};

use cluster::{BROKERS, Cluster, PARTITIONS, TOPIC};

#[tokio::test]
async fn postgres() {
    each_record_is_applied_once(Kind::Postgres).await;
}

#[tokio::test]
async fn sqlite() {
    each_record_is_applied_once(Kind::Sqlite).await;
}

const RECORDS: i64 = 10_000;
/// One record of so many is no payment.
const ONE_IS_ODD: i64 = 1_000;
/// How many at a time a partition brings, where a leader is to be met half-way: the cluster hands out what was appended
/// together.
const FEW: usize = 4;

async fn each_record_is_applied_once(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let cluster = Cluster::start().await;
    let launch = Launch::bare(env!("CARGO_BIN_EXE_kafka_consumer_under_test"))
        .flag("--database-url", &database.url)
        .flag("--brokers", &cluster.brokers)
        .flag("--topic", TOPIC)
        .flag("--quiet", "1")
        .flag("--answer", "2")
        .flag("--lease", "2");
    let replicas = Deployment::start(&database, launch, "payments", 3).await;
    let mut consumer = Consumer { database: &database, cluster, replicas, written: 0 };

    consumer.writes_where_it_begins().await;
    consumer.dies_in_its_transaction().await;
    consumer.dies_half_way().await;
    consumer.freezes_in_its_transaction().await;
    consumer.freezes_half_way().await;
    consumer.stops_half_way().await;
    consumer.says_that_an_offset_is_gone().await;
    consumer.outlives_a_short_outage().await;
    consumer.hands_over_when_a_broker_is_gone().await;
    consumer.hands_over_when_a_broker_is_silent().await;
    consumer.write(RECORDS - consumer.written).await;
    consumer.applies_all().await;

    consumer.replicas.shut_down().await;
    assert_applied_once_and_in_order(&database).await;
    assert_put_aside(&database).await;
}

struct Consumer<'d> {
    database: &'d TestDatabase,
    cluster: Cluster,
    replicas: Deployment<'d>,
    written: i64,
}

impl<'d> Consumer<'d> {
    /// Before there is a record.
    async fn writes_where_it_begins(&self) {
        let begun = async || {
            let begun = self.database.number("SELECT count(*) FROM offsets WHERE next_offset = 0").await;
            (begun == i64::from(PARTITIONS)).then_some(())
        };
        eventually("the offset of each partition", PATIENCE, begun).await;
    }

    async fn dies_in_its_transaction(&mut self) {
        let (leader, lock) = self.is_in_its_transaction().await;
        let dying = self.replicas.replica(leader.pid);
        dying.kill();
        dying.wait_exit().await;
        assert!(self.replicas.is_sure(leader), "it had lost its lease before it died");
        lock.release().await;
        self.replicas.kill(leader.pid).await;
        self.applies_all().await;
    }

    /// It wakes up when its successor has applied what it was about to.
    async fn freezes_in_its_transaction(&mut self) {
        let (leader, lock) = self.is_in_its_transaction().await;
        self.replicas.freeze_leading(leader);
        lock.release().await;
        self.replicas.leader_after(leader.term).await;
        self.applies_all().await;
        self.replicas.wake(leader).await;
    }

    async fn stops_half_way(&mut self) {
        let leader = self.is_half_way().await;
        self.replicas.stop(leader.pid).await;
        self.applies_all().await;
    }

    async fn freezes_half_way(&mut self) {
        let leader = self.is_half_way().await;
        self.replicas.freeze(leader.pid).await;
        self.replicas.leader_after(leader.term).await;
        self.applies_all().await;
        self.replicas.wake(leader).await;
    }

    async fn dies_half_way(&mut self) {
        let leader = self.is_half_way().await;
        self.replicas.kill(leader.pid).await;
        self.applies_all().await;
    }

    /// And does not go on from another one.
    async fn says_that_an_offset_is_gone(&mut self) {
        let leader = self.replicas.leader().await;
        let shift = |by: i64| format!("UPDATE offsets SET next_offset = next_offset + {by} WHERE part = 0");
        self.database.execute(&shift(RECORDS)).await;
        self.replicas.stop(leader.pid).await;
        let next = self.replicas.leader_after(leader.term).await;
        let refused = self.replicas.says(next, "stepped down with an error").await;
        assert!(refused.contains("partition 0 of payments"), "{refused}");
        self.replicas.leader_after(next.term).await;
        self.database.execute(&shift(-RECORDS)).await;
        self.write(300).await;
        self.applies_all().await;
    }

    async fn outlives_a_short_outage(&mut self) {
        self.write(700).await;
        let leader = self.replicas.leader().await;
        (1..=BROKERS).for_each(|broker| self.cluster.take_down(broker));
        self.replicas.says(leader, "Failed to connect").await;
        (1..=BROKERS).for_each(|broker| self.cluster.bring_up(broker));
        self.write(300).await;
        self.applies_all().await;
        assert_eq!(self.replicas.leader().await, leader, "who leads still");
    }

    /// The others flow on, which does not hide it.
    async fn hands_over_when_a_broker_is_gone(&mut self) {
        self.write(800).await;
        self.cluster.take_down(1);
        self.hands_over().await;
        self.cluster.bring_up(1);
        self.write(500).await;
        self.applies_all().await;
    }

    /// Its connections are open, and nothing comes.
    async fn hands_over_when_a_broker_is_silent(&mut self) {
        self.write(800).await;
        self.cluster.silence(2);
        self.hands_over().await;
        self.cluster.end_silence(2);
        self.write(500).await;
        self.applies_all().await;
    }

    /// Waits until the leader has given its name back with an error that says why, and another has been elected.
    async fn hands_over(&self) {
        let leader = self.replicas.leader().await;
        let refused = self.replicas.says(leader, "stepped down with an error").await;
        assert!(refused.contains("reason=\"work returned\""), "{refused}");
        assert!(refused.contains("no broker answers"), "{refused}");
        self.replicas.leader_after(leader.term).await;
    }

    /// Record `n` goes to partition `n % PARTITIONS`.
    async fn write(&mut self, records: i64) {
        self.write_in(usize::MAX, records).await;
    }

    /// In batches of so many.
    async fn write_in(&mut self, batch: usize, records: i64) {
        let new = self.written..self.written + records;
        self.written = new.end;
        let of_partition =
            |partition: i64| new.clone().filter(move |n| n % i64::from(PARTITIONS) == partition);
        let values: Vec<Vec<_>> =
            (0..PARTITIONS).map(|partition| of_partition(partition.into()).map(value).collect()).collect();
        self.cluster.append(&values, batch).await;
    }

    /// Writes, and waits until the leader stands between what a record brings and its offset. On SQLite, where the lock is the
    /// file, it stands at the begin of its transaction, and cannot renew: little time may pass until the lock is released.
    async fn is_in_its_transaction(&mut self) -> (Leader, Lock<'d>) {
        let leader = self.replicas.leader().await;
        let lock = Lock::take(self.database, "LOCK TABLE offsets IN EXCLUSIVE MODE").await;
        self.write(1_500).await;
        lock.is_waited_for_in([leader]).await;
        (leader, lock)
    }

    /// Writes, and waits until the leader has begun with it.
    async fn is_half_way(&mut self) -> Leader {
        let leader = self.replicas.leader().await;
        let before = self.written;
        self.write_in(FEW, 1_000).await;
        let begun = async || (self.applied().await > before).then_some(());
        eventually("the first of the records", PATIENCE, begun).await;
        leader
    }

    async fn applies_all(&self) {
        let applied = async || (self.applied().await == self.written).then_some(());
        eventually("the last record", PATIENCE, applied).await;
    }

    /// How many records are behind the offsets.
    async fn applied(&self) -> i64 {
        self.database.number("SELECT CAST(coalesce(sum(next_offset), 0) AS BIGINT) FROM offsets").await
    }
}

/// What record `n` says: a payment of `n`, but for one of many.
fn value(n: i64) -> String {
    if n % ONE_IS_ODD == 0 {
        return format!("no payment but {n}");
    }
    format!(r#"{{"account": "account {}", "amount": {n}}}"#, n % 40)
}

async fn assert_applied_once_and_in_order(database: &TestDatabase) {
    let payments = RECORDS - RECORDS / ONE_IS_ODD;
    assert_eq!(database.number("SELECT count(*) FROM entries").await, payments, "entries");
    assert_eq!(database.number("SELECT count(DISTINCT amount) FROM entries").await, payments, "payments");
    let early = format!(
        "SELECT count(*) FROM (SELECT amount < lag(amount) OVER (PARTITION BY amount % {PARTITIONS} ORDER BY id) \
         AS early FROM entries) e WHERE early"
    );
    assert_eq!(database.number(&early).await, 0, "booked before one that precedes it");
}

async fn assert_put_aside(database: &TestDatabase) {
    let odd = RECORDS / ONE_IS_ODD;
    assert_eq!(database.number("SELECT count(*) FROM put_aside").await, odd);
    let right = format!(
        "SELECT count(*) FROM put_aside \
         WHERE topic = '{TOPIC}' AND (at_offset * {PARTITIONS} + part) % {ONE_IS_ODD} = 0"
    );
    assert_eq!(database.number(&right).await, odd, "put aside by their place");
}
