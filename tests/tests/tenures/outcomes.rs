//! What a work returns, and what is made of it.

use std::fmt;
use std::panic::panic_any;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use leader::{Builder, Ended, Ending, EventKind, Tenure, TransactionError};
use leader_tests::harness::local::{Events, Seen};
use leader_tests::harness::logs;
use tokio::sync::mpsc;

use crate::{World, scenarios};

scenarios!(every world: while_leading, after_the_loss, after_stepping_down, after_the_shutdown);

type Returned = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What its event and its log must say.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// INFO, no error.
    Fine,
    /// ERROR, with exactly this.
    Error(&'static str),
    /// ERROR, with the place of `explode` and this.
    Panic(&'static str),
    /// ERROR, that the error's own code panicked.
    Untold,
}
use Expect::{Error, Fine, Panic, Untold};

async fn while_leading(world: World) {
    let cases: Vec<(&str, Expect)> = vec![
        ("ok", Fine),
        ("err", Error("could not deliver: no stamps left")),
        ("an ending that is none", Error("shutting down")),
        ("panic in the first poll", Panic("boom")),
        ("panic before the first poll", Panic("boom")),
        ("panic after an await", Panic("boom")),
        ("panic in drop", Panic("boom")),
        ("panic in drop after an error", Panic("boom")),
        ("panic in the first poll and in drop", Panic("boom")),
        ("panic without text", Panic("a payload that is no text")),
        ("a caught panic before", Error("panicked: another")),
        ("an error without words", Untold),
        ("an error without a source", Untold),
    ];
    let events = Events::default();
    let mut builder = world.elector("first", &events);
    for (name, _) in &cases {
        let name = *name;
        builder = builder.work(name, move |tenure| leads(name, tenure));
    }
    check_all(builder, &events, &cases, "work returned").await;
}

fn leads(name: &'static str, tenure: Tenure) -> Pin<Box<dyn Future<Output = Returned> + Send>> {
    if name == "panic before the first poll" {
        explode();
    }
    Box::pin(async move {
        match name {
            "ok" => Ok(()),
            "err" => Err(anyhow::anyhow!("no stamps left").context("could not deliver").into()),
            "an ending that is none" => Err(Ending::ShuttingDown.into()),
            "panic in the first poll" => explode(),
            "panic after an await" => {
                tenure.sleep(Duration::from_millis(10)).await?;
                explode()
            }
            "panic in drop" => ExplodesInDrop(Some(Ok(()))).await,
            "panic in drop after an error" => ExplodesInDrop(Some(Err("lost".into()))).await,
            "panic in the first poll and in drop" => ExplodesInDrop(None).await,
            "panic without text" => explode_with(7_u8),
            "a caught panic before" => {
                let caught = std::panic::catch_unwind(|| explode());
                assert!(caught.is_err());
                // No hook is called for this one, and so its place is not known.
                std::panic::resume_unwind(Box::new("another"))
            }
            "an error without words" => Err(Wordless { in_source: false }.into()),
            "an error without a source" => Err(Wordless { in_source: true }.into()),
            other => panic!("{other}"),
        }
    })
}

async fn after_the_loss(world: World) {
    after(&world, Ending::LeaseLost).await;
}

async fn after_stepping_down(world: World) {
    after(&world, Ending::SteppedDown).await;
}

async fn after_the_shutdown(world: World) {
    after(&world, Ending::ShuttingDown).await;
}

async fn after(world: &World, ending: Ending) {
    let cases: Vec<(&str, Expect)> = vec![
        ("ok", Fine),
        ("ended", Fine),
        ("ending", Fine),
        ("sleep", Fine),
        ("anyhow", Fine),
        ("context", Fine),
        ("transaction", Fine),
        ("transaction in context", Fine),
        ("outcome unknown", Error("it may have committed, or not; look before you write it again")),
        (
            "outcome unknown in context",
            Error("it may have committed, or not; look before you write it again"),
        ),
        ("transparent", Fine),
        ("with itself", Fine),
        ("with an error", Error("half a letter")),
        ("with an error in context", Error("half a letter")),
        ("own error", Error("the ink ran out")),
        ("the same words", Error("lease lost")),
        ("panic", Panic("boom")),
        ("an error without words", Untold),
        ("an error without a source", Untold),
    ];
    let events = Events::default();
    let mut builder = world.elector("first", &events);
    let (begun, mut begins) = mpsc::unbounded_channel();
    for (name, _) in &cases {
        let name = *name;
        let begun = begun.clone();
        builder = builder.work(name, move |tenure| {
            let _ = begun.send(());
            async move {
                let ended = tenure.ended().await;
                let ended_error = tenure.check().expect_err("it is over");
                ends(name, ended, ended_error, &tenure).await
            }
        });
    }
    logs::keep();
    let running = builder.start().await.unwrap();
    for _ in &cases {
        begins.recv().await.expect("each begins");
    }
    match ending {
        Ending::LeaseLost => world.rob().await,
        Ending::SteppedDown => {
            for (name, _) in &cases {
                running.step_down(name).await.unwrap();
            }
        }
        _ => running.shutdown().await.unwrap(),
    }
    for (name, expect) in &cases {
        let end = end_of(&events, name).await;
        verify(name, &end, *expect, &ending.to_string());
    }
    let lost = events.count(EventKind::Lost);
    let expected = if ending == Ending::LeaseLost { cases.len() } else { 0 };
    assert_eq!(lost, expected, "{events:?}");
}

async fn ends(name: &str, ending: Ending, ended: Ended, tenure: &Tenure) -> Returned {
    match name {
        "ok" => Ok(()),
        "ended" => Err(ended.into()),
        "ending" => Err(ending.into()),
        "sleep" => Ok(tenure.sleep(Duration::from_mins(1)).await?),
        "anyhow" => Err(anyhow::Error::from(ended).into()),
        "context" => {
            let deep = Err::<(), _>(ended).context("in a letter").context("in a bag");
            Err(deep.context("in a van").unwrap_err().into())
        }
        "transaction" => Err(TransactionError::from(ended).into()),
        "transaction in context" => {
            Err(anyhow::Error::from(TransactionError::from(ending)).context("in a bag").into())
        }
        "outcome unknown" => Err(TransactionError::OutcomeUnknown(ended).into()),
        "outcome unknown in context" => {
            Err(anyhow::Error::from(TransactionError::OutcomeUnknown(ended)).context("in a bag").into())
        }
        "transparent" => Err(Box::new(std::io::Error::other(ended))),
        "with itself" => Err(ended.with(ended).into()),
        "with an error" => Err(ending.with(anyhow::anyhow!("half a letter")).into()),
        "with an error in context" => {
            let joined = anyhow::Error::from(ended.with("half a letter"));
            Err(joined.context("in a bag").into())
        }
        "own error" => Err(anyhow::anyhow!("the ink ran out").into()),
        "the same words" => Err("lease lost".into()),
        "panic" => explode(),
        "an error without words" => Err(Wordless { in_source: false }.into()),
        "an error without a source" => Err(Wordless { in_source: true }.into()),
        other => panic!("{other}"),
    }
}

async fn check_all(builder: Builder, events: &Events, cases: &[(&str, Expect)], reason: &str) {
    logs::keep();
    let running = builder.start().await.unwrap();
    for (name, expect) in cases {
        let end = end_of(events, name).await;
        verify(name, &end, *expect, reason);
    }
    assert_eq!(events.count(EventKind::Lost), 0, "{events:?}");
    // The names were given back, and everybody campaigns again.
    for (name, _) in cases {
        let first = end_of(events, name).await.event.term;
        events
            .wait(&format!("the next election to `{name}`"), |seen| {
                seen.is_of(EventKind::Elected, name) && seen.event.term > first
            })
            .await;
    }
    running.shutdown().await.unwrap();
}

async fn end_of(events: &Events, name: &str) -> Seen {
    events.wait(&format!("the end of `{name}`"), |seen| seen.is_of(EventKind::SteppedDown, name)).await
}

#[track_caller]
fn verify(name: &str, end: &Seen, expect: Expect, reason: &str) {
    let event = &end.event;
    assert_eq!(event.reason.as_deref(), Some(reason), "{name}: {event:?}");
    let error = event.error.as_deref();
    match expect {
        Fine => assert_eq!(error, None, "{name}"),
        Error(text) => assert!(
            error.is_some_and(|error| error == text || error.ends_with(&format!(": {text}"))),
            "{name}: {error:?}"
        ),
        Untold => assert!(
            error.is_some_and(|error| error.starts_with("an error that cannot be told: panicked at ")),
            "{name}: {error:?}"
        ),
        Panic(text) => {
            let start = format!("panicked at {}:{EXPLODES_IN}", file!());
            assert!(
                error.is_some_and(|error| {
                    let there = (0..=5).any(|line| {
                        error.starts_with(&format!("panicked at {}:{}:", file!(), EXPLODES_IN + line))
                    });
                    there && error.ends_with(&format!(": {text}"))
                }),
                "{name}: {error:?} is not at {start}"
            );
        }
    }
    // Its last words in the log, with its trace id.
    let trace_id = event.trace_id.as_deref().expect("a tenure's");
    let records = logs::about(trace_id);
    let last = records
        .iter()
        .rfind(|record| record.contains("stepped down"))
        .unwrap_or_else(|| panic!("{name}: nothing of its end in {records:#?}"));
    let level = if error.is_none() { " INFO " } else { "ERROR " };
    assert!(last.contains(level), "{name}: {last}");
    assert!(last.contains(reason), "{name}: {last}");
    if let Panic(_) = expect {
        assert!(last.contains("tenures"), "{name}: no backtrace in {last}");
        assert!(last.contains("outcomes.rs"), "{name}: {last}");
    }
}

/// The place of both panics, give or take a few lines.
const EXPLODES_IN: u32 = line!() + 3;

fn explode() -> ! {
    panic!("boom")
}

fn explode_with(payload: u8) -> ! {
    panic_any(payload)
}

/// Panics where it should say what is wrong.
#[derive(Debug)]
struct Wordless {
    in_source: bool,
}

impl fmt::Display for Wordless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_source { f.write_str("there was a cause") } else { Err(fmt::Error) }
    }
}

impl std::error::Error for Wordless {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        explode()
    }
}

/// Returns at once, or panics at once, and panics when it is dropped.
struct ExplodesInDrop(Option<Returned>);

impl Future for ExplodesInDrop {
    type Output = Returned;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Returned> {
        Poll::Ready(self.0.take().unwrap_or_else(|| explode()))
    }
}

impl Drop for ExplodesInDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            explode();
        }
    }
}
