//! Lets the keeper in between two transactions.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::{AGAIN, Beside};

/// Lets the keeper's renewal in between the transactions of busy writers, its own process's and others': a lock on a
/// file beside the database. Who begins a fenced transaction passes through; while a keeper waits for the write lock,
/// the turnstile is closed. It is courtesy, not safety: nobody waits long, and a missing file is no error.
#[derive(Clone, Debug)]
pub(crate) struct Turnstile(Beside);

impl Turnstile {
    pub(crate) fn beside(database: &Path) -> Self {
        Self(Beside::database(database))
    }

    pub(super) fn file(&self) -> Beside {
        self.0.clone()
    }

    /// Closes it until the file is dropped, if nobody else has.
    pub(super) fn close(&self) -> Option<File> {
        let file = self.0.write().ok()?;
        file.try_lock().ok().map(|()| file)
    }

    /// Waits, but not for long, while it is closed.
    pub(crate) async fn pass(&self) {
        const LONGEST: u32 = 100;

        let Ok(file) = self.0.write() else { return };
        for _ in 0..LONGEST {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => tokio::time::sleep(AGAIN).await,
                Ok(()) | Err(TryLockError::Error(_)) => return,
            }
        }
    }
}
