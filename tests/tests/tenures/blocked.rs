//! Whatever the application does to its pool and its threads, the lease is kept, and the exit is on time.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leader::EventKind;
use leader_tests::harness::local::{Events, FAST, Puppet};
use leader_tests::harness::{Kind, Sql};
use sqlx::{MySql, Postgres, Sqlite};
use tokio::time::Instant;

use crate::{NAME, World, scenarios};

scenarios!(real:
    an_exhausted_pool_costs_no_lease,
    blocked_threads_cost_no_lease,
    blocked_threads_do_not_delay_the_exit,
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

async fn blocked_threads_cost_no_lease(world: World) {
    let blocked = Blocked::on(&world, FAST.lease * 2).await;
    tokio::time::sleep(FAST.lease * 2).await;
    blocked.probe_was_late();
    assert_eq!(blocked.events.count(EventKind::Lost), 0, "{:?}", blocked.events);
    assert_eq!(blocked.events.count(EventKind::Elected), 1);
    blocked.end().await;
}

async fn blocked_threads_do_not_delay_the_exit(world: World) {
    let blocked = Blocked::on(&world, FAST.lease * 2).await;
    let begun = Instant::now();
    world.rob().await;
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

/// A runtime of the application's, every thread of which sleeps.
struct Blocked {
    events: Events,
    probe: mpsc::Receiver<Duration>,
    until: Duration,
    done: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Blocked {
    const WORKERS: usize = 2;

    async fn on(world: &World, how_long: Duration) -> Self {
        let events = Events::default();
        let mut puppet = Puppet::default();
        let elector = world.elector("first", &events).work(NAME, puppet.work());
        let (done, over) = tokio::sync::oneshot::channel::<()>();
        let (started, blocking) = tokio::sync::oneshot::channel();
        let (late, probe) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(Self::WORKERS)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let running = elector.start().await.unwrap();
                puppet.tenure().await;
                let barrier = std::sync::Arc::new(std::sync::Barrier::new(Self::WORKERS + 1));
                for _ in 0..Self::WORKERS {
                    let barrier = std::sync::Arc::clone(&barrier);
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
