//! Says who holds the write lock of the file, when it does not come for long.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A keeper that waits for the write lock, or does not.
pub(super) struct HeldUp {
    database: PathBuf,
    patience: Duration,
    since: Option<Instant>,
    told: bool,
}

impl HeldUp {
    pub(super) fn new(database: &Path, patience: Duration) -> Self {
        Self { database: database.to_owned(), patience, since: None, told: false }
    }

    /// The lock was not to be had. Told once, when the patience is over: the statement that waits is given up without a
    /// word, and the loss that follows would have no reason that anybody could see.
    pub(super) fn goes_on(&mut self) {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited >= self.patience && !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                file = %self.database.display(), ?waited,
                "the keeper waits for the write lock of the SQLite file, which is held by {}; a transaction past the \
                 deadline costs every lease on this file",
                holder(&self.database)
            );
        }
    }

    /// A statement got through.
    pub(super) fn ends(&mut self) {
        (self.since, self.told) = (None, false);
    }
}

fn holder(database: &Path) -> String {
    match process_id(database) {
        Some(id) if id == std::process::id() => "a transaction of this process".to_owned(),
        Some(id) => format!("a transaction of process {id}"),
        // On another system than Linux, in another container, or gone by now.
        None => "somebody out of sight".to_owned(),
    }
}

/// Reads the system's list of locks. To ask by `fcntl` would take a file descriptor, and closing it gives up every
/// lock that SQLite holds in this process.
#[cfg(target_os = "linux")]
fn process_id(database: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;

    let mut index = database.as_os_str().to_owned();
    index.push("-shm");
    let inode = std::fs::metadata(index).ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|lock| writer(lock, inode))
}

#[cfg(not(target_os = "linux"))]
fn process_id(_database: &Path) -> Option<u32> {
    None
}

/// The process that a line of `/proc/locks` is about, if the lock is the one of a writer on the index of this log.
#[cfg(target_os = "linux")]
fn writer(lock: &str, inode: u64) -> Option<u32> {
    /// `WAL_WRITE_LOCK`, by the file format of the index.
    const BYTE: u64 = 120;

    let fields: Vec<&str> = lock.split_whitespace().collect();
    let [_, "POSIX", "ADVISORY", "WRITE", process, file, first, last] = fields[..] else {
        return None;
    };
    // The device before it is not the one that `stat` gives on every file system.
    let (_, of) = file.rsplit_once(':')?;
    let bytes = first.parse().ok()?..=last.parse().unwrap_or(u64::MAX);
    (of.parse() == Ok(inode) && bytes.contains(&BYTE)).then(|| process.parse().ok())?
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_known_by_its_lock() {
        let of = |lock| writer(lock, 2_752_547);
        assert_eq!(of("1: POSIX  ADVISORY  WRITE 77 08:01:2752547 120 120"), Some(77));
        assert_eq!(
            of("1: POSIX  ADVISORY  WRITE 77 08:01:2752547 120 121"),
            Some(77),
            "a checkpoint with it"
        );
        assert_eq!(of("1: POSIX  ADVISORY  WRITE 77 08:01:2752547 0 EOF"), Some(77));
        assert_eq!(of("1: POSIX  ADVISORY  READ 77 08:01:2752547 120 120"), None);
        assert_eq!(of("1: POSIX  ADVISORY  WRITE 77 08:01:2752547 121 121"), None, "a checkpoint");
        assert_eq!(of("1: POSIX  ADVISORY  WRITE 77 08:01:2752548 120 120"), None, "another file");
        assert_eq!(of("1: -> POSIX  ADVISORY  WRITE 77 08:01:2752547 120 120"), None, "who waits");
        assert_eq!(of("1: FLOCK  ADVISORY  WRITE 77 08:01:2752547 0 EOF"), None);
        assert_eq!(of(""), None);
    }
}
