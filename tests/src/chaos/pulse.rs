//! Whether the machine has time for its processes, and for their files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::history::Span;
use crate::harness::now_ms;

/// A thread that does next to nothing, again and again, and notices when it takes long.
pub(super) struct Pulse {
    enough: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Span>>,
}

impl Pulse {
    /// Starts to feel it, with a file in this directory.
    pub(super) fn feel(directory: &Path) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let (file, done) = (directory.join("pulse"), Arc::clone(&enough));
        Self { enough, thread: std::thread::spawn(move || feel(&file, &done)) }
    }

    /// When it could not be felt.
    pub(super) fn stalls(self) -> Vec<Span> {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().expect("nothing panics there")
    }
}

fn feel(file: &Path, enough: &AtomicBool) -> Vec<Span> {
    const PAUSE: Duration = Duration::from_millis(50);
    const LONG: i64 = 200;

    let mut stalls = Vec::new();
    let mut from = now_ms();
    while !enough.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        beat(file).expect("the directory of the logs is there");
        let until = now_ms();
        if until - from > LONG {
            stalls.push(Span { from, until });
        }
        from = until;
    }
    stalls
}

/// What a commit on SQLite costs.
fn beat(file: &Path) -> io::Result<()> {
    let file = File::options().write(true).create(true).truncate(false).open(file)?;
    file.write_all_at(&[0; 512], 0)?;
    file.sync_data()
}
