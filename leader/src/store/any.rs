//! One type for every database, chosen at start.

use super::{Companion, Store, StoreError};
use crate::clock::Clock;
use crate::name::WorkName;
use crate::protocol::{Digest, Hint, Hold, Scan, SessionId};

/// Any of the databases that can carry leases.
#[allow(missing_docs, reason = "the databases by their names")]
#[allow(private_interfaces, reason = "made by `Database` alone")]
#[allow(clippy::large_enum_variant, reason = "there is one of them in a keeper")]
#[non_exhaustive]
pub enum AnyStore {
    #[cfg(feature = "postgres")]
    Postgres(super::postgres::Postgres),
    #[cfg(feature = "mysql")]
    MySql(super::mysql::MySql),
    #[cfg(feature = "sqlite")]
    Sqlite(Box<super::sqlite::Sqlite>),
    #[cfg(any(test, feature = "test-util"))]
    Memory(super::memory::MemoryStore),
}

impl AnyStore {
    /// The clock that goes with the database.
    pub(crate) fn clock(&self) -> Clock {
        match self {
            #[cfg(any(test, feature = "test-util"))]
            Self::Memory(store) => store.clock(),
            #[allow(unreachable_patterns, reason = "a build for tests may have no other")]
            _ => Clock::machine(),
        }
    }

    /// Whether its keeper belongs on the runtime of the caller, whose clock may be paused.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self, Self::Memory(_))
    }
}

impl std::fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyStore")
    }
}

/// Calls an operation of whichever it is.
macro_rules! each {
    ($this:ident, $store:ident => $call:expr) => {
        match $this {
            #[cfg(feature = "postgres")]
            Self::Postgres($store) => $call,
            #[cfg(feature = "mysql")]
            Self::MySql($store) => $call,
            #[cfg(feature = "sqlite")]
            Self::Sqlite($store) => $call,
            #[cfg(any(test, feature = "test-util"))]
            Self::Memory($store) => $call,
            // Without a single database there is no value of this type, and the compiler wants an arm all the same.
            #[cfg(not(any(feature = "postgres", feature = "mysql", feature = "sqlite", feature = "test-util", test)))]
            _ => unreachable!("no database was compiled in"),
        }
    };
}

impl Store for AnyStore {
    async fn prepare(&mut self, create: bool) -> Result<(), StoreError> {
        each!(self, store => store.prepare(create).await)
    }

    async fn ensure(&mut self, names: &[WorkName]) -> Result<(), StoreError> {
        each!(self, store => store.ensure(names).await)
    }

    async fn open(&mut self, id: SessionId) -> Result<(), StoreError> {
        each!(self, store => store.open(id).await)
    }

    async fn renew(&mut self, id: SessionId) -> Result<Option<Digest>, StoreError> {
        each!(self, store => store.renew(id).await)
    }

    async fn held(&mut self, id: SessionId) -> Result<Vec<Hold>, StoreError> {
        each!(self, store => store.held(id).await)
    }

    async fn scan(&mut self, id: SessionId) -> Result<Scan, StoreError> {
        each!(self, store => store.scan(id).await)
    }

    async fn reap(&mut self, ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError> {
        each!(self, store => store.reap(ids).await)
    }

    async fn claim(
        &mut self,
        id: SessionId,
        names: &[WorkName],
        gone: &[SessionId],
    ) -> Result<Vec<Hold>, StoreError> {
        each!(self, store => store.claim(id, names, gone).await)
    }

    async fn release(&mut self, id: SessionId, holds: &[Hold]) -> Result<Vec<Hold>, StoreError> {
        each!(self, store => store.release(id, holds).await)
    }

    async fn end_fenced(&mut self, fenced: &[(WorkName, SessionId)]) -> Result<u64, StoreError> {
        each!(self, store => store.end_fenced(fenced).await)
    }

    async fn close(&mut self, id: SessionId) -> Result<(), StoreError> {
        each!(self, store => store.close(id).await)
    }

    fn hang_up(&mut self) {
        each!(self, store => store.hang_up());
    }

    async fn changed(&mut self) -> Hint {
        each!(self, store => store.changed().await)
    }

    fn companion(&mut self) -> Option<Companion> {
        each!(self, store => store.companion())
    }
}
