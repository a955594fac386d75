//! Tells the standbys of a file that names were given back.

use std::io::{self, Read, Write};
use std::time::Duration;

use tokio::time::Instant;

use super::Beside;

/// A number in the file beside the database that changes with every release. `PRAGMA data_version` would tell of every
/// write of anybody, and each would make every standby look at the tables. It is a hint: a file that cannot be written
/// costs speed and nothing else.
pub(super) struct Mark {
    file: Beside,
    seen: Option<u128>,
    next_look: Instant,
    told: bool,
}

impl Mark {
    pub(super) fn in_file(file: Beside) -> Self {
        let mut mark = Self { file, seen: None, next_look: Instant::now(), told: false };
        mark.seen = mark.read();
        mark
    }

    /// Names were given back.
    pub(super) fn change(&mut self) {
        // Whoever changes it looks as well: somebody else may have changed it since the last look.
        let mark = crate::random::bits();
        if let Err(error) = self.file.write().and_then(|mut file| file.write_all(&mark.to_le_bytes()))
            && !std::mem::replace(&mut self.told, true)
        {
            let file = self.file.path().display();
            tracing::warn!(%file, %error, "standbys notice releases by looking, as this file cannot be written");
        }
    }

    /// Resolves when somebody has changed it. Looks on time however often it is dropped and called again.
    pub(super) async fn changed(&mut self) {
        const LOOK: Duration = Duration::from_millis(20);

        loop {
            tokio::time::sleep_until(self.next_look).await;
            self.next_look = Instant::now() + LOOK;
            let mark = self.read();
            if mark.is_some() && mark != self.seen {
                self.seen = mark;
                return;
            }
        }
    }

    fn read(&self) -> Option<u128> {
        let read = || -> io::Result<u128> {
            let mut mark = [0; 16];
            self.file.read()?.read_exact(&mut mark)?;
            Ok(u128::from_le_bytes(mark))
        };
        read().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_is_seen_once_by_everybody() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = Beside::database(&folder.path().join("app.db"));
        let [mut one, mut two, mut three] = [(); 3].map(|()| Mark::in_file(file.clone()));
        let soon = Duration::from_millis(300);
        assert!(tokio::time::timeout(soon, two.changed()).await.is_err(), "nothing has changed");
        for _ in 0..3 {
            one.change();
            two.changed().await;
            three.changed().await;
        }
        // Whoever gives a name back does not miss that somebody else did.
        one.change();
        two.change();
        two.changed().await;
        assert!(tokio::time::timeout(soon, two.changed()).await.is_err(), "it was seen");
        std::fs::remove_file(file.path()).expect("it was there");
        assert!(tokio::time::timeout(soon, two.changed()).await.is_err(), "nobody changed it");
        one.change();
        two.changed().await;
    }
}
