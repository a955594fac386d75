//! What this process logged, for tests that ask.

use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Starts to keep what is logged at INFO and above.
pub fn keep() {
    static STARTED: LazyLock<()> = LazyLock::new(|| {
        tracing_subscriber::fmt().with_ansi(false).with_max_level(LevelFilter::INFO).with_writer(Keep).init();
    });
    LazyLock::force(&STARTED);
}

/// Every record that mentions this, a trace id for example.
pub fn about(what: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| line.contains(what)).cloned().collect()
}

struct Keep;

impl MakeWriter<'_> for Keep {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

impl io::Write for Keep {
    /// Called once for each record.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(String::from_utf8_lossy(record).into_owned());
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
