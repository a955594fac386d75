//! Many works under fire: whoever leads them dies, freezes and stops while 200 shops ship, and each order is shipped once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use leader_tests::harness::deployment::Leader;
use leader_tests::harness::{Deployment, Kind, Launch, Lock, PATIENCE, Replica, TestDatabase, eventually};

mod postgres {
    use super::{Kind, each_deployment_leads_its_share, each_order_is_shipped_once};

    #[tokio::test]
    async fn under_fire() {
        each_order_is_shipped_once(Kind::Postgres).await;
    }

    #[tokio::test]
    async fn divided() {
        each_deployment_leads_its_share(Kind::Postgres).await;
    }
}

mod sqlite {
    use super::{Kind, each_deployment_leads_its_share, each_order_is_shipped_once};

    #[tokio::test]
    async fn under_fire() {
        each_order_is_shipped_once(Kind::Sqlite).await;
    }

    #[tokio::test]
    async fn divided() {
        each_deployment_leads_its_share(Kind::Sqlite).await;
    }
}

const SHOPS: i64 = 200;
/// How long it takes to pack an order, in ms. A shop that has several is not done sooner.
const PACKING: i64 = 500;

async fn each_order_is_shipped_once(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let spool = tempfile::tempdir().expect("a directory");
    let replicas = Deployment::start(&database, launch(&database, spool.path()), "shop/0", 3).await;
    let mut shops = Shops { database: &database, replicas, orders: 0 };
    shops.open().await;

    shops.die_at_work().await;
    shops.freeze_while_they_ship().await;
    shops.stop_at_work().await;
    shops.die_at_work().await;

    shops.are_done().await;
    shops.open().await;
    assert_shipped(&database, shops.orders).await;
    assert_invoiced(&database, shops.orders).await;
    assert_mailed(spool.path(), shops.orders);
    shops.replicas.shut_down().await;
}

fn launch(database: &TestDatabase, spool: &Path) -> Launch {
    Launch::bare(env!("CARGO_BIN_EXE_many_works"))
        .flag("--database-url", &database.url)
        .flag("--spool", spool.to_str().expect("a plain path"))
        .flag("--packing", &PACKING.to_string())
        .flag("--lease", "3")
}

struct Shops<'d> {
    database: &'d TestDatabase,
    replicas: Deployment<'d>,
    orders: i64,
}

impl Shops<'_> {
    /// So many more in each shop.
    async fn place_orders(&mut self, each: i64) {
        let new = self.orders..self.orders + each * SHOPS;
        self.orders = new.end;
        let orders: Vec<_> = new.map(|n| format!("({}, 'article {n}')", n % SHOPS)).collect();
        let insert = format!("INSERT INTO orders (shop, article) VALUES {}", orders.join(", "));
        self.database.execute(&insert).await;
    }

    /// Waits until every name is led.
    async fn open(&self) {
        lead(&self.replicas, &named(LIBRARIES, 0..SHOPS)).await;
    }

    async fn die_at_work(&mut self) {
        let (leader, led) = self.at_work().await;
        self.replicas.kill(leader).await;
        self.succeeded(&led).await;
    }

    async fn stop_at_work(&mut self) {
        let (leader, led) = self.at_work().await;
        self.replicas.stop(leader).await;
        self.succeeded(&led).await;
    }

    /// Between the first statement of a transaction and the commit; on SQLite, where the lock is the file, at the begin. It
    /// wakes up when its successors have shipped what it was about to.
    async fn freeze_while_they_ship(&mut self) {
        let (leader, led) = self.at_work().await;
        self.place_orders(4).await;
        let lock = Lock::take(self.database, "LOCK TABLE shipments IN EXCLUSIVE MODE").await;
        lock.is_waited_for_in(led.values().copied()).await;
        self.replicas.replica(leader).freeze();
        assert!(led.values().all(|led| self.replicas.is_sure(*led)), "a tenure was over before the freeze");
        lock.release().await;
        self.succeeded(&led).await;
        self.at_work().await;
        self.wake(leader, &led).await;
    }

    /// Its works have `margin` to stop, a tenth of a second here. Where 200 cannot, on a busy machine, the process has to end.
    async fn wake(&mut self, pid: i32, led: &BTreeMap<String, Leader>) {
        let replica = self.replicas.replica(pid);
        replica.wake();
        let over = || !led.values().any(|led| self.replicas.is_sure(*led));
        let knows = async || (replica.exited().is_some() || over()).then_some(());
        eventually("a woken replica to know", PATIENCE, knows).await;
        replica.term();
        let status = replica.wait_exit().await;
        assert!([Some(0), Some(leader::EXIT_STATUS)].contains(&status), "{status:?} of {replica}");
        self.replicas.kill(pid).await;
    }

    /// Places orders and waits until some are shipped. Then who leads most names, and all that it leads.
    async fn at_work(&mut self) -> (i32, BTreeMap<String, Leader>) {
        let shipped = self.shipped().await;
        self.place_orders(2).await;
        let more = async || (self.shipped().await >= shipped + SHOPS / 2).then_some(());
        eventually("the shops to ship", PATIENCE, more).await;

        let leaders = self.replicas.leaders().await;
        let led_by = |pid: i32| leaders.iter().filter(move |(_, leader)| leader.pid == pid);
        let pids = self.replicas.replicas().iter().map(Replica::pid);
        let most = pids.max_by_key(|pid| led_by(*pid).count()).expect("three replicas");
        (most, led_by(most).map(|(name, leader)| (name.clone(), *leader)).collect())
    }

    /// Waits until each of these names has a leader under a later term.
    async fn succeeded(&self, led: &BTreeMap<String, Leader>) {
        let by_others = async || {
            let leaders = self.replicas.leaders().await;
            let later = |(name, old): (&String, &Leader)| {
                leaders.get(name).is_some_and(|new| new.term > old.term && new.pid != old.pid)
            };
            led.iter().all(later).then_some(())
        };
        eventually(&format!("successors for {} names", led.len()), PATIENCE, by_others).await;
    }

    /// Waits until every order is shipped, invoiced and mailed, as long as it gets on.
    async fn are_done(&self) {
        let mut left = self.left().await;
        while left > 0 {
            let less = async || Some(self.left().await).filter(|now| *now < left);
            left = eventually("the next shipment, invoice or mail", PATIENCE, less).await;
        }
    }

    /// What is still to be done: three things for each order.
    async fn left(&self) -> i64 {
        const LEFT: &str = "SELECT 3 * (SELECT count(*) FROM orders WHERE NOT shipped) \
            + (SELECT count(*) FROM shipments) - (SELECT count(*) FROM invoices) \
            + (SELECT count(*) FROM mails WHERE NOT spooled)";

        self.database.number(LEFT).await
    }

    async fn shipped(&self) -> i64 {
        self.database.number("SELECT count(*) FROM shipments").await
    }
}

const LIBRARIES: [&str; 2] = ["invoices", "mail"];

/// The works of these libraries and of these shops.
fn named(
    libraries: impl IntoIterator<Item = &'static str>,
    shops: impl Iterator<Item = i64>,
) -> BTreeSet<String> {
    libraries.into_iter().map(ToOwned::to_owned).chain(shops.map(|shop| format!("shop/{shop}"))).collect()
}

/// Each order once, those of a shop in their order, and never under a term that was over.
async fn assert_shipped(database: &TestDatabase, orders: i64) {
    const ONCE: &str = "SELECT count(DISTINCT order_id) FROM shipments";
    const OUT_OF_ORDER: &str = "SELECT count(*) FROM (SELECT order_id, term, \
        lag(order_id) OVER shops AS last_order, lag(term) OVER shops AS last_term FROM shipments \
        WINDOW shops AS (PARTITION BY shop ORDER BY id)) s WHERE order_id <= last_order OR term < last_term";

    assert_eq!(database.number("SELECT count(*) FROM shipments").await, orders, "shipments");
    assert_eq!(database.number(ONCE).await, orders, "orders that were shipped");
    assert_eq!(database.number(OUT_OF_ORDER).await, 0, "shipments out of order");
}

/// Each shipment once, by numbers without a gap.
async fn assert_invoiced(database: &TestDatabase, orders: i64) {
    assert_eq!(database.number("SELECT count(*) FROM invoices").await, orders, "invoices");
    assert_eq!(database.number("SELECT max(number) FROM invoices").await, orders, "the last number");
}

/// One mail for each order, whole. What is no mail is a part that a tenure left.
fn assert_mailed(spool: &Path, orders: i64) {
    let files = std::fs::read_dir(spool).expect("the spool").map(|file| file.expect("a file").path());
    let mails = files.filter(|file| file.extension().is_some_and(|extension| extension == "mail"));
    let mails: BTreeSet<_> = mails.map(|mail| std::fs::read_to_string(mail).expect("a mail")).collect();
    let right: BTreeSet<_> = (0..orders)
        .map(|n| format!("Order {}, article {n}, has left shop {}.\n", n + 1, n % SHOPS))
        .collect();
    assert_eq!(mails, right);
}

/// Two deployments of workers, and one that serves requests beside invoices and mail.
async fn each_deployment_leads_its_share(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let spool = tempfile::tempdir().expect("a directory");
    let not_made = spool.path().join("of workers");
    let worker = launch(&database, &not_made).flag("--role", "worker");
    let web = launch(&database, spool.path()).flag("--role", "web");
    let web = Deployment::start(&database, web, "invoices", 2).await;
    let odd = Deployment::start(&database, worker.clone().flag("--share", "2/2"), "shop/1", 2).await;
    let mut even = Deployment::start(&database, worker.flag("--share", "1/2"), "shop/0", 1).await;

    let (of_web, of_odd) = (named(LIBRARIES, 0..0), named([], (1..SHOPS).step_by(2)));
    let of_even = named([], (0..SHOPS).step_by(2));
    lead(&web, &of_web).await;
    lead(&odd, &of_odd).await;
    lead(&even, &of_even).await;

    // Those that stand by elsewhere see that its names are vacant, and leave them alone.
    even.lose(even.replicas()[0].pid()).await;
    let reaped = async || (database.sessions().await.len() == 4).then_some(());
    eventually("the end of its session", PATIENCE, reaped).await;
    even.add().await;
    lead(&even, &of_even).await;
    lead(&web, &of_web).await;
    lead(&odd, &of_odd).await;
    for deployment in [web, odd, even] {
        deployment.shut_down().await;
    }
    assert!(!not_made.exists(), "a worker needs no spool");
}

/// Waits until these are the names that the deployment leads.
async fn lead(deployment: &Deployment<'_>, names: &BTreeSet<String>) {
    let led = async || deployment.leaders().await.keys().eq(names).then_some(());
    eventually(&format!("a deployment to lead {} names", names.len()), PATIENCE, led).await;
}

#[tokio::test]
async fn a_share_is_what_one_leads_that_leads_the_libraries_too() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let spool = tempfile::tempdir().expect("a directory");
    let half = launch(&database, spool.path()).flag("--share", "2/2");
    let half = Deployment::start(&database, half, "shop/1", 1).await;
    lead(&half, &named(LIBRARIES, (1..SHOPS).step_by(2))).await;
    half.shut_down().await;
}

#[tokio::test]
async fn a_share_of_no_shops_is_refused() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let spool = tempfile::tempdir().expect("a directory");
    let replica = launch(&database, spool.path()).flag("--role", "web").flag("--share", "1/2").start();
    assert_eq!(replica.wait_exit().await, Some(1), "{replica}");
    assert!(replica.log().contains("`--role web` leads none"), "{replica}");
}

#[tokio::test]
async fn a_crate_that_is_missing_is_missed() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let spool = tempfile::tempdir().expect("a directory");
    let replica = launch(&database, spool.path()).flag("--expect", "reports").start();
    assert_eq!(replica.wait_exit().await, Some(1), "{replica}");
    let log = replica.log();
    for part in [
        "`expect` at examples/6_many_works.rs:",
        "names the work `reports`, which is not registered",
        "the linker drops a crate that nobody names, and `use that_crate as _;` keeps it",
    ] {
        assert!(log.contains(part), "no `{part}` in {log}");
    }
}
