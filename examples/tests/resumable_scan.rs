//! The resumable scan under fire: its leaders die, freeze and stop half-way, and the totals are right to the cent.

use leader_tests::harness::{Deployment, Kind, Launch, Lock, PATIENCE, TestDatabase, eventually};

#[tokio::test]
async fn postgres() {
    each_order_is_counted_once(Kind::Postgres).await;
}

#[tokio::test]
async fn sqlite() {
    each_order_is_counted_once(Kind::Sqlite).await;
}

const ORDERS: i64 = 15_000;
const CUSTOMERS: i64 = 40;

async fn each_order_is_counted_once(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let launch = Launch::bare(env!("CARGO_BIN_EXE_resumable_scan"))
        .flag("--database-url", &database.url)
        .flag("--pause", "5")
        .flag("--lease", "2");
    let replicas = Deployment::start(&database, launch, "order_totals", 3).await;
    place_orders(&database).await;
    let mut scan = Scan { database: &database, replicas };

    scan.dies_half_way().await;
    scan.stops_half_way().await;
    scan.freezes_in_its_transaction().await;
    scan.freezes_half_way().await;
    scan.stops_half_way().await;
    scan.dies_half_way().await;
    scan.reaches(ORDERS).await;
    scan.replicas.shut_down().await;
    assert_eq!(miscounted(&database).await, 0, "customers whose totals are wrong");
}

struct Scan<'d> {
    database: &'d TestDatabase,
    replicas: Deployment<'d>,
}

impl Scan<'_> {
    async fn dies_half_way(&mut self) {
        self.moves().await;
        let leader = self.replicas.leader().await;
        self.replicas.kill(leader.pid).await;
    }

    async fn stops_half_way(&mut self) {
        self.moves().await;
        let leader = self.replicas.leader().await;
        self.replicas.stop(leader.pid).await;
    }

    /// It wakes up when its successor has counted what it was about to.
    async fn freezes_half_way(&mut self) {
        self.moves().await;
        let leader = self.replicas.leader().await;
        self.replicas.freeze(leader.pid).await;
        self.replicas.leader_after(leader.term).await;
        self.moves().await;
        self.replicas.wake(leader).await;
    }

    /// The same, and the freeze comes between the first statement of its transaction and the commit; on SQLite, where the lock
    /// is the file, at its begin.
    async fn freezes_in_its_transaction(&mut self) {
        self.moves().await;
        let leader = self.replicas.leader().await;
        let lock = Lock::take(self.database, "LOCK TABLE totals IN EXCLUSIVE MODE").await;
        lock.is_waited_for_in([leader]).await;
        self.replicas.freeze_leading(leader);
        lock.release().await;
        self.replicas.leader_after(leader.term).await;
        self.moves().await;
        self.replicas.wake(leader).await;
    }

    /// Waits until it has got some way from here.
    async fn moves(&self) {
        let cursor = self.cursor().await;
        assert!(cursor < ORDERS - 1_000, "the scan is over before the test is");
        self.reaches(cursor + 500).await;
    }

    async fn reaches(&self, order: i64) {
        let reached = async || (self.cursor().await >= order).then_some(());
        eventually("the scan to get on", PATIENCE, reached).await;
    }

    async fn cursor(&self) -> i64 {
        self.database.number("SELECT coalesce(max(last_id), 0) FROM scans").await
    }
}

/// The scan has made the table.
async fn place_orders(database: &TestDatabase) {
    let order = |n: i64| format!("('customer {}', {})", n % CUSTOMERS, n * n % 10_007);
    let orders: Vec<_> = (0..ORDERS).map(order).collect();
    for orders in orders.chunks(1_000) {
        database
            .execute(&format!("INSERT INTO orders (customer, amount) VALUES {}", orders.join(", ")))
            .await;
    }
}

/// How many customers have other totals than their orders give, or none.
async fn miscounted(database: &TestDatabase) -> i64 {
    let right = "SELECT customer, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY customer";
    let wrong = format!(
        "SELECT count(*) FROM ({right}) o LEFT JOIN totals t ON t.customer = o.customer \
         WHERE t.orders IS NULL OR t.orders <> o.orders OR t.amount <> o.amount"
    );
    database.number(&wrong).await
}
