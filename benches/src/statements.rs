//! The statements of keepers, counted in this process by what they log.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Write as _};
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, ThreadId};

use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// How many statements of each sort.
pub type Tally = BTreeMap<String, u64>;

/// From now on each keeper's statements are counted by the thread that it has to itself.
pub fn count() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::registry().with(Counting).init());
}

/// What a keeper's thread has sent so far.
pub fn of(thread: ThreadId) -> Tally {
    tallies().get(&thread).cloned().unwrap_or_default()
}

/// What came to one between two looks.
pub fn between(before: &Tally, after: &Tally) -> Tally {
    let new = |(sort, count): (&String, &u64)| {
        let more = count - before.get(sort).copied().unwrap_or_default();
        (more > 0).then(|| (sort.clone(), more))
    };
    after.iter().filter_map(new).collect()
}

struct Counting;

impl<S: tracing::Subscriber> Layer<S> for Counting {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == "leader::keeper" && *metadata.level() == Level::DEBUG
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut sort = Sort(None);
        event.record(&mut sort);
        if let Some(sort) = sort.0 {
            *tallies().entry(thread::current().id()).or_default().entry(sort).or_default() += 1;
        }
    }
}

/// The sort of a request: the first word of how it is debugged.
struct Sort(Option<String>);

impl Visit for Sort {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "request" {
            let mut word = FirstWord(String::new());
            // It stops there: a claim of ten thousand names is long.
            let _ = write!(word, "{value:?}");
            self.0 = Some(word.0);
        }
    }
}

struct FirstWord(String);

impl std::fmt::Write for FirstWord {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let word: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
        self.0.push_str(&word);
        if word.len() == text.len() { Ok(()) } else { Err(std::fmt::Error) }
    }
}

fn tallies() -> MutexGuard<'static, HashMap<ThreadId, Tally>> {
    static TALLIES: LazyLock<Mutex<HashMap<ThreadId, Tally>>> = LazyLock::new(Mutex::default);
    TALLIES.lock().unwrap_or_else(PoisonError::into_inner)
}
