//! `Tenure::spawn`: tasks that end with the tenure, and count as the work until they are gone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leader::{Ended, Ending, EventKind, Tenure};
use leader_tests::harness::local::Events;
use leader_tests::harness::logs;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::{NAME, World, scenarios};

scenarios!(every world:
    tasks_end_with_the_tenure,
    tasks_end_with_the_work,
    a_task_that_panics_is_logged_with_its_place,
);
scenarios!(real: a_task_counts_as_the_work_until_it_is_gone);

async fn tasks_end_with_the_tenure(world: World) {
    let led = world.lead().await;
    led.puppet.stay();
    let quick = led.tenure.spawn(async { 42 });
    assert_eq!(quick.await.unwrap().unwrap(), 42);
    let task = led.tenure.spawn(std::future::pending::<()>());
    let step_down = led.running.step_down(NAME);
    tokio::pin!(step_down);
    let ended = tokio::select! {
        ended = task => ended.unwrap(),
        _ = &mut step_down => panic!("stepped down before the work returned"),
    };
    assert_eq!(ended.unwrap_err().ending(), Ending::SteppedDown);
    // Too late to begin.
    let (ran, mut runs) = mpsc::unbounded_channel();
    let late = led.tenure.spawn(async move {
        let _ = ran.send(());
    });
    assert_eq!(late.await.unwrap().unwrap_err().ending(), Ending::SteppedDown);
    assert_eq!(runs.recv().await, None);
    led.puppet.obey();
    step_down.await.unwrap();
}

async fn tasks_end_with_the_work(world: World) {
    let led = world.lead().await;
    let task = led.tenure.spawn(std::future::pending::<()>());
    led.puppet.leave();
    assert!(task.await.unwrap().is_err());
    let end = led.events.of(EventKind::SteppedDown, &led.tenure).await;
    assert_eq!(end.event.reason.as_deref(), Some("work returned"));
    let late: Result<(), Ended> = led.tenure.spawn(async {}).await.unwrap();
    assert!(late.is_err());
}

async fn a_task_that_panics_is_logged_with_its_place(world: World) {
    logs::keep();
    let events = Events::default();
    let work = |tenure: Tenure| async move {
        let task = tenure.spawn(async {
            tokio::task::yield_now().await;
            panic!("in a task")
        });
        // Its handle says so, and the work goes on.
        let task: Result<Result<(), Ended>, _> = task.await;
        assert!(task.unwrap_err().is_panic());
        tenure.ended().await;
    };
    let running = world.elector("first", &events).work(NAME, work);
    let running = running.start().await.unwrap();
    let elected = events.wait("an election", |seen| seen.is(EventKind::Elected)).await;
    let trace_id = elected.event.trace_id.unwrap();
    leader_tests::harness::eventually("the log", Duration::from_secs(5), async || {
        let records = logs::about(&trace_id);
        let place = format!("panicked at {}:", file!());
        records
            .iter()
            .any(|record| {
                record.contains("ERROR ") && record.contains(&place) && record.contains("in a task")
            })
            .then_some(())
    })
    .await;
    running.step_down(NAME).await.unwrap();
    let end = events.wait("the end", |seen| seen.is(EventKind::SteppedDown)).await;
    assert_eq!(end.event.error, None);
}

async fn a_task_counts_as_the_work_until_it_is_gone(world: World) {
    const SLOW: Duration = Duration::from_millis(2500);

    let led = world.lead().await;
    let events = Events::default();
    let other = world.elector("second", &events);
    let other = other.work(NAME, |tenure: Tenure| async move {
        tenure.ended().await;
    });
    let other = other.start().await.unwrap();
    let gone = Arc::new(Mutex::new(None));
    let slow = SlowToGo(SLOW, Arc::clone(&gone));
    let (begun, begins) = oneshot::channel();
    led.tenure.spawn(async move {
        let _slow = slow;
        let _ = begun.send(());
        std::future::pending::<()>().await;
    });
    begins.await.unwrap();
    led.running.step_down(NAME).await.unwrap();
    let next = events.wait("the next election", |seen| seen.is(EventKind::Elected)).await;
    let gone = gone.lock().unwrap().expect("the task is gone");
    assert!(next.at >= gone, "elected {:?} too early", gone.duration_since(next.at));
    let end = led.events.of(EventKind::SteppedDown, &led.tenure).await;
    assert!(end.at >= gone, "its end was told while a task of it ran");
    // It took longer than a lease, which was renewed meanwhile.
    assert_eq!(led.events.count(EventKind::Lost), 0, "{:?}", led.events);
    other.shutdown().await.unwrap();
}

/// Takes its time when it is dropped.
struct SlowToGo(Duration, Arc<Mutex<Option<Instant>>>);

impl Drop for SlowToGo {
    fn drop(&mut self) {
        std::thread::sleep(self.0);
        *self.1.lock().unwrap() = Some(Instant::now());
    }
}
