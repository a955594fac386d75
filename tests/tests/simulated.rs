//! Electors on the database in memory under paused time, with messages that are lost or late: what would take minutes and
//! luck on a real server.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use leader::test_util::{Clock, Delivery, Fence, Memory, Statement};
use leader::{Elector, Ended, Ending, Event, EventKind, Running, Tenure, Timings, TransactionError};
use sqlx::sqlite::SqlitePoolOptions;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// An elector with one work, and what it tells.
struct Replica {
    running: Running,
    events: Arc<Mutex<Vec<(Instant, Event)>>>,
    tenures: watch::Receiver<Option<Tenure>>,
}

impl Replica {
    async fn start(memory: &Memory, names: usize) -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let (sender, tenures) = watch::channel(None);
        let sender = Arc::new(sender);
        let mut builder = Elector::builder().without_annotated().database(memory).on_event({
            let events = Arc::clone(&events);
            move |event| events.lock().expect("not poisoned").push((Instant::now(), event.clone()))
        });
        for number in 0..names {
            let sender = Arc::clone(&sender);
            builder = builder.work(format!("work-{number}"), move |tenure: Tenure| {
                sender.send_replace(Some(tenure.clone()));
                async move {
                    tenure.ended().await;
                }
            });
        }
        Self { running: builder.start().await.expect("started"), events, tenures }
    }

    /// The next tenure that begins.
    async fn tenure(&mut self) -> Tenure {
        self.tenures.changed().await.expect("the elector lives");
        self.tenures.borrow_and_update().clone().expect("a tenure")
    }

    fn count(&self, kind: EventKind) -> usize {
        let events = self.events.lock().expect("not poisoned");
        events.iter().filter(|(_, event)| event.kind == kind).count()
    }
}

fn memory() -> Memory {
    Memory::new(Clock::tokio())
}

#[tokio::test(start_paused = true)]
async fn one_missed_renewal_is_no_outage() {
    let memory = memory();
    let mut replica = Replica::start(&memory, 1).await;
    let tenure = replica.tenure().await;
    let renewals = AtomicU64::new(0);
    memory.on_statement(move |statement| match statement {
        Statement::Renew if renewals.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => Delivery::Refused,
        _ => Delivery::Answered,
    });
    sleep(Duration::from_mins(10)).await;
    assert_eq!(tenure.ending(), None);
    assert!(replica.running.healthy());
    assert_eq!(replica.count(EventKind::Lost), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_lost_at_the_deadline_and_not_before() {
    for delivery in [Delivery::RequestLost, Delivery::AnswerLost, Delivery::Refused] {
        let memory = memory();
        let mut replica = Replica::start(&memory, 1).await;
        let tenure = replica.tenure().await;
        let last_good = Arc::new(Mutex::new(Instant::now()));
        let failing = Arc::new(AtomicBool::new(false));
        memory.on_statement({
            let (last_good, failing) = (Arc::clone(&last_good), Arc::clone(&failing));
            move |statement| {
                if statement != Statement::Renew {
                    return Delivery::Answered;
                }
                if failing.load(Ordering::Relaxed) {
                    return delivery;
                }
                *last_good.lock().expect("not poisoned") = Instant::now();
                Delivery::Answered
            }
        });
        sleep(Duration::from_secs(7)).await;
        failing.store(true, Ordering::Relaxed);
        assert_eq!(tenure.ended().await, Ending::LeaseLost);
        let since = last_good.lock().expect("not poisoned").elapsed();
        let deadline = Timings::default().deadline;
        assert!(since >= deadline && since < deadline + Duration::from_millis(50), "{delivery:?}: {since:?}");
        // It never gives up: once the database answers, the name is led again.
        failing.store(false, Ordering::Relaxed);
        let again = timeout(Duration::from_mins(1), replica.tenure()).await.expect("elected again");
        assert!(again.term() > tenure.term());
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_answered_after_a_minute_is_too_late() {
    let memory = memory();
    let mut replica = Replica::start(&memory, 1).await;
    let tenure = replica.tenure().await;
    memory.on_statement(|statement| match statement {
        Statement::Renew => Delivery::Delayed(Duration::from_mins(1)),
        _ => Delivery::Answered,
    });
    let begun = Instant::now();
    assert_eq!(tenure.ended().await, Ending::LeaseLost);
    assert!(begun.elapsed() <= Timings::default().deadline + Duration::from_millis(50));
}

/// I7: the database made it ours and nobody heard. It is given back and won anew, under another term.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_starts_no_work() {
    let memory = memory();
    let claims = Arc::new(AtomicUsize::new(0));
    memory.on_statement({
        let claims = Arc::clone(&claims);
        move |statement| match statement {
            Statement::Claim if claims.fetch_add(1, Ordering::Relaxed) == 0 => Delivery::AnswerLost,
            _ => Delivery::Answered,
        }
    });
    let mut replica = Replica::start(&memory, 1).await;
    sleep(Duration::from_millis(100)).await;
    let (_, lost_term) = memory.leader("default", "work-0").expect("the database knows of the claim");
    assert_eq!(replica.count(EventKind::Elected), 0);
    let tenure = timeout(Duration::from_secs(30), replica.tenure()).await.expect("elected");
    assert!(tenure.term() > lost_term);
    assert_eq!(claims.load(Ordering::Relaxed), 2);
    assert_eq!(replica.count(EventKind::Elected), 1);
}

/// A release that was lost is found out and sent again, and another replica takes over.
#[tokio::test(start_paused = true)]
async fn a_release_that_was_lost_is_sent_again() {
    for delivery in [Delivery::RequestLost, Delivery::AnswerLost, Delivery::Refused] {
        let memory = memory();
        let mut first = Replica::start(&memory, 1).await;
        let tenure = first.tenure().await;
        let mut second = Replica::start(&memory, 1).await;
        let releases = AtomicUsize::new(0);
        memory.on_statement(move |statement| match statement {
            Statement::Release if releases.fetch_add(1, Ordering::Relaxed) == 0 => delivery,
            _ => Delivery::Answered,
        });
        first.running.step_down("work-0").await.expect("stepped down");
        let next = timeout(Duration::from_secs(20), second.tenure()).await.expect("elected");
        assert!(next.term() > tenure.term());
        assert_eq!(first.count(EventKind::SteppedDown), 1);
        assert_eq!(first.count(EventKind::Lost), 0, "{delivery:?} is not a loss");
    }
}

/// That of tokio, and by how many seconds it is ahead.
fn jumping_clock() -> (Clock, Arc<AtomicU64>) {
    let jumped = Arc::new(AtomicU64::new(0));
    let tokio_clock = Clock::tokio();
    let clock = Clock::injected({
        let jumped = Arc::clone(&jumped);
        move || tokio_clock.now() + Duration::from_secs(jumped.load(Ordering::Relaxed))
    });
    (clock, jumped)
}

/// A replica under a clock that jumps, as after a lid that was closed.
struct Lid {
    jumped: Arc<AtomicU64>,
    replica: Replica,
    tenure: Tenure,
}

impl Lid {
    async fn open() -> Self {
        let (clock, jumped) = jumping_clock();
        let mut replica = Replica::start(&Memory::new(clock), 1).await;
        let tenure = replica.tenure().await;
        tenure.check().expect("it leads");
        Self { jumped, replica, tenure }
    }

    fn closed_for(&self, seconds: u64) {
        self.jumped.fetch_add(seconds, Ordering::Relaxed);
    }
}

/// Whoever asks hears it, before anybody had the time to say it.
#[tokio::test(start_paused = true)]
async fn who_wakes_up_late_is_refused_at_once() {
    let mut lid = Lid::open().await;
    // Past the deadline, and the keeper had no turn yet.
    lid.closed_for(12);
    let ended: Ended = lid.tenure.check().expect_err("it does not know whether it leads");
    assert_eq!(ended.ending(), Ending::LeaseLost);
    assert_eq!(lid.replica.count(EventKind::Lost), 1);
    let again = timeout(Duration::from_secs(30), lid.replica.tenure()).await.expect("elected again");
    assert!(again.term() > lid.tenure.term());
}

/// The same for transactions, on a real pool and in real time.
#[tokio::test]
async fn who_wakes_up_late_begins_and_commits_nothing() {
    let pool =
        SqlitePoolOptions::new().max_connections(1).connect_lazy("sqlite::memory:").expect("a good URL");
    let lid = Lid::open().await;
    lid.closed_for(12);
    assert_refused(lid.tenure.begin(&pool));

    let lid = Lid::open().await;
    lid.closed_for(12);
    assert_refused(lid.tenure.begin_elsewhere(&pool));

    let lid = Lid::open().await;
    lid.closed_for(12);
    assert_refused(lid.tenure.transaction(&pool, async |_| Ok::<_, TransactionError>(())));

    let lid = Lid::open().await;
    let mut own = pool.begin().await.expect("a transaction");
    lid.closed_for(12);
    assert_refused(lid.tenure.fence(&mut own));
    drop(own);

    let lid = Lid::open().await;
    let open = lid.tenure.begin_elsewhere(&pool).await.expect("it leads");
    lid.closed_for(12);
    assert_refused(open.commit());
}

/// Refused at once: nobody else on this thread has a turn meanwhile.
#[track_caller]
fn assert_refused<T>(asked: impl Future<Output = Result<T, TransactionError>>) {
    let answer = asked.now_or_never().expect("an answer that waits for nobody");
    let refused = answer.err().expect("a refusal");
    assert!(
        matches!(&refused, TransactionError::Ended(ended) if ended.ending() == Ending::LeaseLost),
        "{refused:?}"
    );
}

/// Nobody asks.
#[tokio::test(start_paused = true)]
async fn who_wakes_up_late_is_told_within_a_tick() {
    let lid = Lid::open().await;
    lid.closed_for(12);
    let ending = timeout(Duration::from_millis(300), lid.tenure.ended()).await.expect("told");
    assert_eq!(ending, Ending::LeaseLost);
}

#[tokio::test(start_paused = true)]
async fn who_wakes_up_in_time_leads_on() {
    let lid = Lid::open().await;
    for _ in 0..10 {
        lid.closed_for(7);
        lid.tenure.check().expect("the deadline has not passed");
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(lid.replica.count(EventKind::Lost), 0);
}

/// I8: a process is frozen within a transaction that the database does not end as idle. A standby has it ended, and asks
/// again if that fails; until then nobody is elected (I3).
#[tokio::test(start_paused = true)]
async fn a_transaction_that_stays_open_is_ended_for_a_standby() {
    const NAME: &str = "work-0";
    let half_of_the_bound = Duration::from_secs(5);

    for failures in [0, 1] {
        let memory = memory();
        let mut first = Replica::start(&memory, 1).await;
        let tenure = first.tenure().await;
        let mut second = Replica::start(&memory, 1).await;
        let open = memory.fence("default", NAME, tenure.term()).expect("it leads");
        let asked = Arc::new(AtomicUsize::new(0));
        memory.on_statement({
            let asked = Arc::clone(&asked);
            move |statement| match statement {
                Statement::EndFenced if asked.fetch_add(1, Ordering::Relaxed) < failures => Delivery::Refused,
                _ => Delivery::Answered,
            }
        });
        let since = Instant::now();
        memory.delete_sessions();
        let next = async {
            tokio::select! {
                next = first.tenure() => next,
                next = second.tenure() => next,
            }
        };
        let next = timeout(Duration::from_mins(1), next).await.expect("somebody is elected");
        let took = since.elapsed();
        assert!(took >= half_of_the_bound, "{took:?}");
        assert!(
            took <= Duration::from_secs(13) + half_of_the_bound * failures.try_into().unwrap(),
            "{took:?}"
        );
        assert!(asked.load(Ordering::Relaxed) > failures);
        assert!(next.term() > tenure.term());
        assert!(!open.commit(), "it was ended");
        assert!(memory.fence("default", NAME, tenure.term()).is_none(), "its term is over");
        assert!(memory.fence("default", NAME, next.term()).is_some_and(Fence::commit));
    }
}

/// Promise 5, in statements.
#[tokio::test(start_paused = true)]
async fn a_thousand_names_cost_no_more_statements_than_one() {
    let mut per_minute = Vec::new();
    for names in [1, 1_000] {
        let memory = memory();
        let leader = Replica::start(&memory, names).await;
        let standby = Replica::start(&memory, names).await;
        timeout(Duration::from_mins(1), async {
            while leader.count(EventKind::Elected) < names {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("all elected");
        let before = memory.statements();
        sleep(Duration::from_mins(1)).await;
        per_minute.push(memory.statements() - before);
        assert_eq!(standby.count(EventKind::Elected), 0);
    }
    // Two renewals every 2 s, and a look every 5 to 6 s.
    assert!((68..=74).contains(&per_minute[0]), "{per_minute:?}");
    assert!(per_minute[1] <= per_minute[0] + 2, "{per_minute:?}");
}

/// A frozen work may hear of it first, from its database.
#[tokio::test(start_paused = true)]
async fn a_work_that_returns_after_its_deadline_has_lost_its_lease() {
    let (clock, jumped) = jumping_clock();
    let events = Arc::new(Mutex::new(Vec::new()));
    let running = Elector::builder()
        .without_annotated()
        .database(Memory::new(clock))
        .on_event({
            let events = Arc::clone(&events);
            move |event| events.lock().expect("not poisoned").push(event.clone())
        })
        .work("mail", move |_| {
            jumped.store(12, Ordering::Relaxed);
            async { Err::<(), _>("the database ended the transaction") }
        })
        .start()
        .await
        .expect("started");
    let ended = async || {
        while events.lock().expect("not poisoned").len() < 4 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(5), ended()).await.expect("the end of the tenure");
    let seen: Vec<_> = events.lock().expect("not poisoned").drain(..).skip(2).collect();
    assert_eq!(seen[0].kind, EventKind::Lost, "{seen:?}");
    assert_eq!(
        (seen[1].kind, seen[1].reason.as_deref()),
        (EventKind::SteppedDown, Some("lease lost")),
        "{seen:?}"
    );
    drop(running);
}
