//! The statements of keepers in this process, by what they log.

use std::fmt::Debug;
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// A statement that a keeper sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The word for it in docs/design.md, such as `renew`.
    pub sort: String,
    /// The keeper, by the thread that it has to itself.
    pub keeper: ThreadId,
    /// When it was sent.
    pub began: Instant,
    /// When it was answered or given up.
    pub ended: Instant,
}

/// From now on each keeper's statements are noted.
pub fn note() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::registry().with(Noting).init());
}

/// The statements of all keepers that ended in this time.
pub fn between(from: Instant, until: Instant) -> Vec<Sent> {
    let notes = notes();
    let first = notes.partition_point(|sent| sent.ended < from);
    notes[first..].iter().take_while(|sent| sent.ended <= until).cloned().collect()
}

struct Noting;

impl<S: tracing::Subscriber> Layer<S> for Noting {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == "leader::keeper" && *metadata.level() == Level::DEBUG
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Some(sort) = fields.sort else { return };
        // Taken under the lock, so that the notes are in order.
        let mut notes = notes();
        let ended = Instant::now();
        let began = ended.checked_sub(fields.took).unwrap_or(ended);
        notes.push(Sent { sort, keeper: thread::current().id(), began, ended });
    }
}

#[derive(Default)]
struct Fields {
    sort: Option<String>,
    took: Duration,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "statement" {
            self.sort = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Not the others: a claim of ten thousand names is long.
        if field.name() == "took" {
            self.took = duration(&format!("{value:?}")).unwrap_or_default();
        }
    }
}

/// Reads back how a duration is debugged.
fn duration(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(char::is_alphabetic);
    let unit = match &text[number.len()..] {
        "ns" => 1e-9,
        "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| Duration::from_secs_f64(number * unit))
}

fn notes() -> MutexGuard<'static, Vec<Sent>> {
    static NOTES: LazyLock<Mutex<Vec<Sent>>> = LazyLock::new(Mutex::default);
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keepers_log_is_noted() {
        note();
        let before = Instant::now();
        let took = Duration::from_micros(1500);
        let statement = "renew";
        tracing::debug!(target: "leader::keeper", statement, request = ?Some("a long request"), ?took, "answered");
        tracing::debug!(target: "leader::keeper", "of no statement");
        tracing::debug!(target: "somebody else", statement, "answered");
        let sent = between(before, Instant::now());
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert_eq!(sent[0].sort, statement);
        assert_eq!(sent[0].keeper, thread::current().id());
        assert_eq!(sent[0].ended - sent[0].began, took);
        assert!(between(Instant::now(), Instant::now()).is_empty());
    }

    #[test]
    fn durations_are_read_back() {
        for nanos in [999, 1_500, 2_345_678, 3_000_000_000] {
            let wanted = Duration::from_nanos(nanos);
            let read = duration(&format!("{wanted:?}")).expect("a duration");
            assert!(read.abs_diff(wanted) < Duration::from_nanos(2), "{read:?}, {wanted:?}");
        }
        assert_eq!(duration("soon"), None);
    }
}
