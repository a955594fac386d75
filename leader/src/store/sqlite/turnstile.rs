//! Lets the keeper in between two transactions.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::AGAIN;

/// Lets the keeper's renewal in between the transactions of busy writers, its own process's and others': a lock on a
/// file beside the database. Who begins a fenced transaction passes through; while a keeper waits for the write lock,
/// the turnstile is closed. It is courtesy, not safety: nobody waits long, and a missing file is no error.
#[derive(Clone, Debug)]
pub(crate) struct Turnstile(PathBuf);

impl Turnstile {
    pub(crate) fn beside(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push("-leader");
        Self(name.into())
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.clone()
    }

    /// Closes it until the file is dropped, if nobody else has.
    pub(super) fn close(&self) -> Option<File> {
        let file = self.open()?;
        file.try_lock().ok().map(|()| file)
    }

    /// Waits, but not for long, while it is closed.
    pub(crate) async fn pass(&self) {
        const LONGEST: u32 = 100;

        let Some(file) = self.open() else { return };
        for _ in 0..LONGEST {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => tokio::time::sleep(AGAIN).await,
                Ok(()) | Err(TryLockError::Error(_)) => return,
            }
        }
    }

    fn open(&self) -> Option<File> {
        File::options().create(true).append(true).open(&self.0).ok()
    }
}
