//! The protocol on a database in memory, under a clock that tests move: what a simulation runs on, and what keeps the
//! seam between protocol and I/O honest.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{Cause, Scope, Store, StoreError, millis};
use crate::clock::{Clock, Moment};
use crate::name::WorkName;
use crate::protocol::{Digest, Hint, Hold, Holder, Scan, SessionId, Statement, Term, Vacancy};

/// A database in memory that any number of electors of one process share.
///
/// It keeps the same tables and answers the same statements as the real ones, each at one moment, and can be told to
/// lose requests or answers.
#[derive(Clone)]
pub struct Memory(Arc<Server>);

struct Server {
    clock: Clock,
    tables: Mutex<Tables>,
    deliveries: Mutex<Box<dyn FnMut(Statement) -> Delivery + Send>>,
    /// How often names were given back.
    freed: watch::Sender<u64>,
}

#[derive(Default)]
struct Tables {
    sessions: BTreeMap<SessionId, SessionRow>,
    names: BTreeMap<Key, NameRow>,
    /// The fenced transactions that are open: each holds the share lock of its name (I3).
    fences: BTreeMap<u64, (Key, SessionId)>,
    fenced_so_far: u64,
    statements: u64,
}

type Key = (String, WorkName);

impl Tables {
    fn is_locked(&self, key: &Key) -> bool {
        self.fences.values().any(|(locked, _)| locked == key)
    }
}

struct SessionRow {
    namespace: String,
    instance: String,
    expires: Moment,
}

#[derive(Clone, Copy, Default)]
struct NameRow {
    term: i64,
    session: Option<SessionId>,
}

/// What becomes of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// It is answered.
    #[default]
    Answered,
    /// It never arrives, and no answer ever comes.
    RequestLost,
    /// It is done, and the answer never comes.
    AnswerLost,
    /// It is done and answered, this much later.
    Delayed(Duration),
    /// The connection is refused.
    Refused,
}

impl Memory {
    /// An empty database by this clock.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Server {
            clock,
            tables: Mutex::default(),
            deliveries: Mutex::new(Box::new(|_| Delivery::Answered)),
            freed: watch::Sender::new(0),
        }))
    }

    /// Decides from now on what becomes of each statement.
    pub fn on_statement(&self, decide: impl FnMut(Statement) -> Delivery + Send + 'static) {
        *self.0.deliveries.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(decide);
    }

    /// How many statements have arrived.
    pub fn statements(&self) -> u64 {
        self.tables().statements
    }

    /// Deletes every session, as an operator might.
    pub fn delete_sessions(&self) {
        self.tables().sessions.clear();
    }

    /// Deletes every name, as an operator might.
    pub fn delete_names(&self) {
        self.tables().names.clear();
    }

    /// The instance that leads a name, and its term.
    pub fn leader(&self, namespace: &str, name: &str) -> Option<(String, Term)> {
        let tables = self.tables();
        let key = (namespace.to_owned(), WorkName::new(name).ok()?);
        let row = tables.names.get(&key)?;
        let session = tables.sessions.get(&row.session?)?;
        (session.expires > self.0.clock.now()).then(|| (session.instance.clone(), Term::new(row.term)))
    }

    /// A fenced transaction under this term: it locks the row of the name in share mode, if term and session are still
    /// those of a leader, until it commits, is dropped, or a standby has it ended (I8).
    pub fn fence(&self, namespace: &str, name: &str, term: Term) -> Option<Fence> {
        let mut tables = self.tables();
        let key = (namespace.to_owned(), WorkName::new(name).ok()?);
        let row = tables.names.get(&key).filter(|row| row.term == term.get())?;
        let session = row.session?;
        tables.fenced_so_far += 1;
        let id = tables.fenced_so_far;
        tables.fences.insert(id, (key, session));
        Some(Fence { database: self.clone(), id })
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

/// An open fenced transaction. Dropped, it is rolled back.
#[derive(Debug)]
#[must_use = "the transaction is rolled back when this is dropped"]
pub struct Fence {
    database: Memory,
    id: u64,
}

impl Fence {
    /// Whether there was anything left to commit.
    pub fn commit(self) -> bool {
        self.end()
    }

    fn end(&self) -> bool {
        self.database.tables().fences.remove(&self.id).is_some()
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) struct MemoryStore {
    database: Memory,
    scope: Scope,
    freed: watch::Receiver<u64>,
}

impl MemoryStore {
    pub(crate) fn new(database: Memory, scope: Scope) -> Self {
        let freed = database.0.freed.subscribe();
        Self { database, scope, freed }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.database.0.clock.clone()
    }

    /// One statement: a moment's work, if it arrives, and an answer, if it comes back.
    async fn statement<T>(
        &self,
        statement: Statement,
        work: impl FnOnce(&mut Tables, Moment) -> T,
    ) -> Result<T, StoreError> {
        /// Half a round trip.
        const LATENCY: Duration = Duration::from_micros(500);

        let delivery = {
            let mut decide = self.database.0.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
            decide(statement)
        };
        tokio::time::sleep(LATENCY).await;
        match delivery {
            Delivery::RequestLost => std::future::pending().await,
            Delivery::Refused => return Err(StoreError::new(Cause::Broken, "connection refused")),
            _ => {}
        }
        let answer = {
            let mut tables = self.database.tables();
            tables.statements += 1;
            work(&mut tables, self.database.0.clock.now())
        };
        match delivery {
            Delivery::AnswerLost => std::future::pending().await,
            Delivery::Delayed(delay) => tokio::time::sleep(delay).await,
            _ => {}
        }
        tokio::time::sleep(LATENCY).await;
        Ok(answer)
    }

    fn key(&self, name: &WorkName) -> Key {
        (self.scope.namespace.as_str().to_owned(), name.clone())
    }

    fn mine(&self, tables: &Tables, id: SessionId) -> Vec<Hold> {
        tables
            .names
            .iter()
            .filter(|((namespace, _), row)| {
                namespace == self.scope.namespace.as_str() && row.session == Some(id)
            })
            .map(|((_, name), row)| (name.clone(), Term::new(row.term)))
            .collect()
    }
}

impl Store for MemoryStore {
    async fn prepare(&mut self, _create: bool) -> Result<(), StoreError> {
        self.statement(Statement::Prepare, |_, _| ()).await
    }

    async fn ensure(&mut self, names: &[WorkName]) -> Result<(), StoreError> {
        self.statement(Statement::Ensure, |tables, _| {
            for name in names {
                tables.names.entry(self.key(name)).or_default();
            }
        })
        .await
    }

    async fn open(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.statement(Statement::Open, |tables, now| {
            let row = SessionRow {
                namespace: self.scope.namespace.as_str().to_owned(),
                instance: self.scope.instance.clone(),
                expires: now + self.scope.lease,
            };
            tables.sessions.insert(id, row);
        })
        .await
    }

    async fn renew(&mut self, id: SessionId) -> Result<Option<Digest>, StoreError> {
        self.statement(Statement::Renew, |tables, now| {
            let row = tables.sessions.get_mut(&id).filter(|row| row.expires > now)?;
            row.expires = now + self.scope.lease;
            let mut digest = Digest::default();
            for (_, term) in self.mine(tables, id) {
                digest.add(term);
            }
            Some(digest)
        })
        .await
    }

    async fn held(&mut self, id: SessionId) -> Result<Vec<Hold>, StoreError> {
        self.statement(Statement::Held, |tables, _| self.mine(tables, id)).await
    }

    async fn scan(&mut self, id: SessionId) -> Result<Scan, StoreError> {
        self.statement(Statement::Scan, |tables, now| {
            let mut scan = Scan::default();
            for ((namespace, name), row) in &tables.names {
                if namespace != self.scope.namespace.as_str() {
                    continue;
                }
                scan.rows += 1;
                let holder = match row.session {
                    None => None,
                    Some(holder) => match tables.sessions.get(&holder) {
                        Some(session) if session.expires > now => continue,
                        Some(_) => Some(Holder::Expired(holder)),
                        None => Some(Holder::Gone(holder)),
                    },
                };
                scan.vacancies.push(Vacancy { name: name.clone(), holder });
            }
            let sessions =
                || tables.sessions.iter().filter(|(_, row)| row.namespace == self.scope.namespace.as_str());
            let expired = sessions().filter(|(_, row)| row.expires <= now);
            scan.expired = expired.map(|(id, row)| (*id, row.instance.clone())).collect();
            scan.next_expiry = sessions()
                .filter(|(other, row)| **other != id && row.expires > now)
                .map(|(_, row)| row.expires.since(now))
                .min();
            scan
        })
        .await
    }

    async fn reap(&mut self, ids: &[SessionId]) -> Result<Vec<SessionId>, StoreError> {
        self.statement(Statement::Reap, |tables, now| {
            let expired = |id: &&SessionId| tables.sessions.get(*id).is_some_and(|row| row.expires <= now);
            let reaped: Vec<SessionId> = ids.iter().filter(expired).copied().collect();
            tables.sessions.retain(|id, _| !reaped.contains(id));
            reaped
        })
        .await
    }

    async fn claim(
        &mut self,
        id: SessionId,
        names: &[WorkName],
        gone: &[SessionId],
    ) -> Result<Vec<Hold>, StoreError> {
        self.statement(Statement::Claim, |tables, now| {
            let mut won = Vec::new();
            if tables.sessions.get(&id).is_none_or(|row| row.expires <= now) {
                return won;
            }
            let present = millis(now.since(Moment::after_origin(Duration::ZERO)));
            for name in names {
                let key = self.key(name);
                let locked = tables.is_locked(&key);
                let Some(row) = tables.names.get_mut(&key) else {
                    continue;
                };
                if !locked && row.session.is_none_or(|holder| gone.contains(&holder)) {
                    row.term = present.max(row.term + 1);
                    row.session = Some(id);
                    won.push((name.clone(), Term::new(row.term)));
                }
            }
            won
        })
        .await
    }

    async fn release(&mut self, id: SessionId, holds: &[Hold]) -> Result<Vec<Hold>, StoreError> {
        self.statement(Statement::Release, |tables, _| {
            let mut kept = Vec::new();
            for (name, term) in holds {
                let key = self.key(name);
                let locked = tables.is_locked(&key);
                if let Some(row) = tables.names.get_mut(&key)
                    && row.session == Some(id)
                    && row.term == term.get()
                {
                    if locked {
                        kept.push((name.clone(), *term));
                    } else {
                        row.session = None;
                    }
                }
            }
            self.database.0.freed.send_modify(|times| *times += 1);
            kept
        })
        .await
    }

    async fn end_fenced(&mut self, fenced: &[(WorkName, SessionId)]) -> Result<u64, StoreError> {
        self.statement(Statement::EndFenced, |tables, _| {
            let before = tables.fences.len();
            for (name, session) in fenced {
                let (key, alive) = (self.key(name), tables.sessions.contains_key(session));
                tables.fences.retain(|_, (locked, under)| alive || *locked != key || under != session);
            }
            (before - tables.fences.len()) as u64
        })
        .await
    }

    async fn close(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.statement(Statement::Close, |tables, _| {
            tables.sessions.remove(&id);
            self.database.0.freed.send_modify(|times| *times += 1);
        })
        .await
    }

    fn hang_up(&mut self) {}

    async fn changed(&mut self) -> Hint {
        // The sender is the database's, which this store keeps.
        let _ = self.freed.changed().await;
        Hint::Look
    }
}
