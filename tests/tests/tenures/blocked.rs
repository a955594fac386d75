//! Whatever the application does to its pool and its threads, the lease is kept, and the exit is on time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use leader::{Builder, EventKind};
use leader_tests::harness::local::{Events, FAST, Puppet};
use leader_tests::harness::{Kind, PATIENCE, Sql};
use sqlx::{MySql, Postgres, Sqlite};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::{NAME, World, scenarios};

scenarios!(real:
    an_exhausted_pool_costs_no_lease,
    blocked_runtimes_cost_no_lease,
    a_thousand_busy_tasks_cost_no_lease,
    blocked_runtimes_do_not_delay_the_exit,
    a_status_that_is_borrowed_costs_no_lease,
    a_hook_that_blocks_past_the_lease_starts_no_work,
);

async fn an_exhausted_pool_costs_no_lease(world: World) {
    match world.real().kind {
        Kind::Postgres => exhausted::<Postgres>(&world).await,
        Kind::MySql => exhausted::<MySql>(&world).await,
        Kind::Sqlite => exhausted::<Sqlite>(&world).await,
    }
}

async fn exhausted<DB>(world: &World)
where
    DB: Sql,
    for<'p> leader::Database: From<&'p sqlx::Pool<DB>>,
{
    let pool = DB::pool(world.real(), 1);
    // Even the start needs none of its connections.
    let taken = pool.acquire().await.unwrap();
    let led = world.lead_with(|builder| builder.database(&pool)).await;
    tokio::time::sleep(FAST.lease * 3).await;
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    assert!(pool.try_acquire().is_none());
    drop(taken);
    led.tenure.begin(&pool).await.unwrap().commit().await.unwrap();
    led.running.shutdown().await.unwrap();
}

/// Two runtimes in one process, one of them with a single thread, and an elector on each.
async fn blocked_runtimes_cost_no_lease(world: World) {
    let blocked = Blocked::two(&world, FAST.lease * 2).await;
    tokio::time::sleep(FAST.lease * 2).await;
    for blocked in blocked {
        blocked.probe_was_late();
        assert_eq!(blocked.events.count(EventKind::Lost), 0, "{:?}", blocked.events);
        assert_eq!(blocked.events.count(EventKind::Elected), 1, "{:?}", blocked.events);
        blocked.end().await;
    }
}

async fn a_thousand_busy_tasks_cost_no_lease(world: World) {
    const TASKS: usize = 1_000;

    let led = world.lead().await;
    let until = Instant::now() + FAST.lease * 2;
    let busy = (0..TASKS).map(|_| tokio::spawn(keep_a_thread_busy(until)));
    futures::future::try_join_all(busy).await.unwrap();
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    led.running.shutdown().await.unwrap();
}

/// A millisecond at a time, and twice at least.
async fn keep_a_thread_busy(until: Instant) {
    let mut turns = 0;
    while turns < 2 || Instant::now() < until {
        let moment = Instant::now() + Duration::from_millis(1);
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        turns += 1;
        tokio::task::yield_now().await;
    }
}

async fn blocked_runtimes_do_not_delay_the_exit(world: World) {
    let blocked = Blocked::two(&world, FAST.lease * 2).await;
    let begun = Instant::now();
    world.rob().await;
    for blocked in blocked {
        let events = &blocked.events;
        let lost = events.wait("the loss", |seen| seen.is(EventKind::Lost)).await;
        let overrun = events.wait("the overrun", |seen| seen.is(EventKind::Overrun)).await;
        let after = overrun.at.duration_since(lost.at);
        assert!(
            (Duration::from_millis(480)..FAST.grace + Duration::from_millis(400)).contains(&after),
            "{after:?} after the loss"
        );
        assert!(
            overrun.at.duration_since(begun) < FAST.lease,
            "while the threads were blocked, and before a lease that was renewed just then could expire"
        );
        blocked.probe_was_late();
        blocked.end().await;
    }
}

/// Whoever holds it holds up nobody but himself.
async fn a_status_that_is_borrowed_costs_no_lease(world: World) {
    let led = world.lead().await;
    let statuses = led.running.subscribe();
    let borrowed = statuses.borrow();
    tokio::time::sleep(FAST.lease * 3).await;
    led.tenure.check().unwrap();
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    assert!(led.running.healthy());
    drop(borrowed);
    led.running.shutdown().await.unwrap();
}

/// Nor the runtime, if that has one thread, which would hang for ever.
#[test]
fn a_status_that_is_borrowed_blocks_no_runtime() {
    let (done, over) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::on(Kind::Sqlite).await;
            let led = world.lead().await;
            let statuses = led.running.subscribe();
            let borrowed = statuses.borrow();
            tokio::time::sleep(FAST.lease * 2).await;
            led.tenure.check().unwrap();
            drop(borrowed);
            led.running.shutdown().await.unwrap();
        });
        done.send(()).unwrap();
    });
    over.recv_timeout(PATIENCE * 2).expect("the runtime goes on");
}

/// When it comes to starting the work, somebody else may have been elected long ago.
async fn a_hook_that_blocks_past_the_lease_starts_no_work(world: World) {
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let (hook, blocked) = (events.hook(), AtomicBool::new(false));
    let elector = world.elector("first", &events).work(NAME, puppet.work()).on_event(move |event| {
        hook(event);
        if event.kind == EventKind::Elected && !blocked.swap(true, Ordering::Relaxed) {
            thread::sleep(FAST.lease * 2);
        }
    });
    let running = elector.start().await.unwrap();
    let first = events.wait("the first election", |seen| seen.is(EventKind::Elected)).await;
    let end = events.wait("its end", |seen| seen.is(EventKind::SteppedDown)).await;
    assert_eq!(end.event.trace_id, first.event.trace_id);
    assert_eq!(end.event.reason.as_deref(), Some("lease lost"));
    assert_eq!(end.event.error, None);
    // The first that the work hears of.
    let tenure = puppet.tenure().await;
    assert!(Some(tenure.term()) > first.event.term);
    assert_eq!(events.count(EventKind::Overrun), 0, "{events:?}");
    running.shutdown().await.unwrap();
}

/// A runtime of the application's, every thread of which sleeps.
struct Blocked {
    events: Events,
    probe: mpsc::Receiver<Duration>,
    until: Duration,
    done: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Blocked {
    /// One with workers, and one that has a single thread.
    async fn two(world: &World, how_long: Duration) -> [Self; 2] {
        let electors = ["first", "second"].map(|instance| {
            let events = Events::default();
            let elector = world.elector(instance, &events);
            (elector, events)
        });
        let [many, one] = electors;
        let one = Self::start(one, "other", 0, how_long);
        let many = Self::start(many, NAME, 2, how_long);
        let (many, one) = tokio::join!(many, one);
        [many, one]
    }

    /// Without a worker the elector is on a runtime of a single thread.
    async fn start(elector: (Builder, Events), name: &str, workers: usize, how_long: Duration) -> Self {
        let (elector, events) = elector;
        let mut puppet = Puppet::default();
        let elector = elector.work(name, puppet.work());
        let (done, over) = oneshot::channel::<()>();
        let (started, blocking) = oneshot::channel();
        let (late, probe) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut runtime = match workers {
                0 => tokio::runtime::Builder::new_current_thread(),
                _ => tokio::runtime::Builder::new_multi_thread(),
            };
            let runtime = runtime.worker_threads(workers.max(1)).enable_all().build().unwrap();
            runtime.block_on(async move {
                let running = elector.start().await.unwrap();
                puppet.tenure().await;
                let barrier = Arc::new(Barrier::new(workers + 1));
                for _ in 0..workers {
                    let barrier = Arc::clone(&barrier);
                    tokio::spawn(async move {
                        barrier.wait();
                        thread::sleep(how_long);
                    });
                }
                // This thread is none of the workers.
                barrier.wait();
                let asked = Instant::now();
                tokio::spawn(async move {
                    let _ = late.send(asked.elapsed());
                });
                let _ = started.send(());
                if workers == 0 {
                    thread::sleep(how_long);
                }
                let _ = over.await;
                let _ = running.shutdown().await;
            });
        });
        blocking.await.expect("the runtime is blocked");
        Self { events, probe, until: how_long, done: Some(done), thread: Some(thread) }
    }

    /// The threads were really blocked, or this shows nothing.
    fn probe_was_late(&self) {
        let late = self.probe.recv_timeout(self.until * 2).unwrap();
        assert!(
            late + Duration::from_millis(100) > self.until,
            "the runtime had a thread left after {late:?}"
        );
    }

    async fn end(mut self) {
        drop(self.done.take());
        let thread = self.thread.take().expect("once");
        tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
    }
}
