//! A way to a server that loses, delays and holds back what the test says.

mod failing;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::database::{Kind, TestDatabase};
use super::replica::PATIENCE;

/// Carries what clients and the server of a database say to each other, and asks a rule what becomes of each message.
/// At first all of it passes. Dropped, it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    way: Arc<Between>,
    listening: AbortHandle,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Pass,
    /// It arrives so much later, and what follows it not before it.
    Delay(Duration),
    /// It waits until the rule is another, which is asked again then.
    Hold,
    /// It is lost, and neither side hears of it.
    Swallow,
    /// Its connection breaks, and both sides hear of that.
    Cut,
    /// In its place the server is sent a statement that fails with this code, and answers that itself: to the client the
    /// statement has failed, to the transaction too. What is no plain query passes, and is judged to.
    Fail(&'static str),
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// A request.
    Server,
    /// An answer.
    Client,
}

/// What a request asks for, as far as tests need to tell it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// The opening of a session.
    Open,
    /// A renewal of a session.
    Renew,
    /// A claim of names.
    Claim,
    /// A standby's look at all names.
    Scan,
    /// A release of names.
    Release,
    /// The fence of a transaction.
    Fence,
    /// The commit of a fenced transaction.
    Commit,
    /// PostgreSQL's `LISTEN` or `UNLISTEN`.
    Listen,
    /// Another one.
    Other,
    /// None yet: the two sides are being introduced.
    None,
}

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Counts connections from 1, in the order they were dialled.
    pub connection: usize,
    /// Where it goes.
    pub to: To,
    /// What is asked for; of an answer, by the last request on its connection.
    pub statement: Statement,
    /// Counts the requests of its connection; of an answer, the number of that request.
    pub number: usize,
    /// The sender has closed its side: no message, but it can be lost like one.
    pub is_end: bool,
    /// A request whose last query is a plain one, so that another can take its place.
    pub is_plain: bool,
}

impl Message {
    /// Whether it goes there and asks for this, or answers to it.
    pub fn is(&self, to: To, statement: Statement) -> bool {
        self.to == to && self.statement == statement && !self.is_end
    }
}

/// A message that was judged.
#[derive(Clone, Copy, Debug)]
pub struct Judged {
    /// Which.
    pub message: Message,
    /// What became of it. One that was held back is judged again.
    pub fate: Fate,
    /// When.
    pub at: Instant,
}

impl Proxy {
    /// Listens on a port of its own.
    ///
    /// # Panics
    ///
    /// When the database has no server, or no port is free.
    pub async fn to(database: &TestDatabase) -> Self {
        let (before, target, path) = parts(database);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().as_ref().map(SocketAddr::port).expect("bound");
        let way = Arc::new(Between {
            kind: database.kind,
            target: Mutex::new(target),
            rule: watch::Sender::new(Arc::new(|_: &Message| Fate::Pass)),
            judged: watch::Sender::new(Vec::new()),
        });
        let listening = tokio::spawn(listen(listener, Arc::clone(&way)));
        Self { url: format!("{before}@127.0.0.1:{port}/{path}"), way, listening: listening.abort_handle() }
    }

    /// The URL of the database by this way.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Connections that are dialled from now on lead to the server of this database.
    pub fn switch_to(&self, database: &TestDatabase) {
        *self.way.target() = parts(database).1;
    }

    /// From now on this says what becomes of messages.
    pub fn rule(&self, rule: impl Fn(&Message) -> Fate + Send + Sync + 'static) {
        self.way.rule.send_replace(Arc::new(rule));
    }

    /// From now on everything passes.
    pub fn pass(&self) {
        self.rule(|_| Fate::Pass);
    }

    /// From now on it swallows everything: neither side hears of the other any more, not even that it is gone.
    pub fn swallow(&self) {
        self.rule(|_| Fate::Swallow);
    }

    /// From now on this becomes of requests for one statement, or of the answers to it. All else passes.
    pub fn each(&self, to: To, statement: Statement, fate: Fate) {
        self.rule(move |message| if message.is(to, statement) { fate } else { Fate::Pass });
    }

    /// The same for the next of them alone.
    pub fn next(&self, to: To, statement: Statement, fate: Fate) {
        let done = AtomicBool::new(false);
        self.rule(move |message| {
            let meant = message.is(to, statement) && !done.swap(true, Ordering::Relaxed);
            if meant { fate } else { Fate::Pass }
        });
    }

    /// Swallows everything on the connections for which this holds. Those that are dialled later work.
    pub fn swallow_old(&self, meant: impl Fn(usize) -> bool + Send + Sync + 'static) {
        let last = self.connections();
        self.rule(move |message| {
            let old = message.connection <= last && meant(message.connection);
            if old { Fate::Swallow } else { Fate::Pass }
        });
    }

    /// How many connections were used so far.
    pub fn connections(&self) -> usize {
        self.way.judged.borrow().iter().map(|judged| judged.message.connection).max().unwrap_or(0)
    }

    /// What was judged so far, in order.
    pub fn judged(&self) -> Vec<Judged> {
        self.way.judged.borrow().clone()
    }

    /// Waits for the first message that is wanted, past ones included.
    ///
    /// # Panics
    ///
    /// When there is none within [`PATIENCE`].
    pub async fn wait(&self, what: &str, wanted: impl Fn(&Judged) -> bool) -> Judged {
        let mut judged = self.way.judged.subscribe();
        let some = judged.wait_for(|judged| judged.iter().any(&wanted));
        let some = tokio::time::timeout(PATIENCE, some).await;
        let some = some.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"));
        let some = some.expect("this holds the sender");
        some.iter().copied().find(&wanted).expect("it was there a moment ago")
    }

    /// Waits until it has swallowed something, so that somebody waits for an answer in vain.
    ///
    /// # Panics
    ///
    /// When it has not within [`PATIENCE`].
    pub async fn has_swallowed(&self) -> Judged {
        let swallowed = |judged: &Judged| judged.fate == Fate::Swallow && !judged.message.is_end;
        self.wait("a message to swallow", swallowed).await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// What comes before the address in the URL of a database, the address, and what comes after it.
fn parts(database: &TestDatabase) -> (String, String, String) {
    let default_port = match database.kind {
        Kind::Postgres => 5432,
        Kind::MySql => 3306,
        Kind::Sqlite => panic!("a file has no server"),
    };
    let (before, rest) = database.url.split_once('@').expect("a URL with a user");
    let (address, path) = rest.split_once('/').expect("a URL with a database");
    let target = if address.contains(':') { address.to_owned() } else { format!("{address}:{default_port}") };
    (before.to_owned(), target, path.to_owned())
}

type Rule = Arc<dyn Fn(&Message) -> Fate + Send + Sync>;

/// What the connections of a proxy share.
struct Between {
    kind: Kind,
    target: Mutex<String>,
    rule: watch::Sender<Rule>,
    judged: watch::Sender<Vec<Judged>>,
}

impl Between {
    fn target(&self) -> MutexGuard<'_, String> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to arrive when this returns; or the end of its connection.
    async fn judge(&self, message: Message, rule: &mut watch::Receiver<Rule>) -> Result<Arrival, Broken> {
        loop {
            let fate = match rule.borrow_and_update()(&message) {
                Fate::Fail(_) if !message.is_plain => Fate::Pass,
                fate => fate,
            };
            let judged = Judged { message, fate, at: Instant::now() };
            self.judged.send_modify(|all| all.push(judged));
            match fate {
                Fate::Pass => return Ok(Arrival::Whole),
                Fate::Fail(code) => return Ok(Arrival::Failing(code)),
                Fate::Swallow => return Ok(Arrival::Nothing),
                Fate::Cut => return Err(Broken),
                Fate::Delay(delay) => {
                    tokio::time::sleep(delay).await;
                    return Ok(Arrival::Whole);
                }
                Fate::Hold => rule.changed().await.map_err(|_| Broken)?,
            }
        }
    }
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Between").field("target", &self.target()).finish_non_exhaustive()
    }
}

/// What arrives of a message.
#[derive(Clone, Copy)]
enum Arrival {
    Whole,
    /// A statement in its place.
    Failing(&'static str),
    Nothing,
}

/// A connection that both sides see break.
struct Broken;

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self
    }
}

async fn listen(listener: TcpListener, way: Arc<Between>) {
    // Dropped with this task, and with it every connection.
    let mut connections = tokio::task::JoinSet::new();
    for number in 1.. {
        let Ok((client, _)) = listener.accept().await else { return };
        connections.spawn(carry(client, number, Arc::clone(&way)));
    }
}

async fn carry(client: TcpStream, connection: usize, way: Arc<Between>) {
    let target = way.target().clone();
    let Ok(server) = TcpStream::connect(target).await else { return };
    // As it was sent: not gathered to larger packets.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let last = Mutex::new((Statement::None, 0));
    let _ = tokio::try_join!(
        pump(from_client, to_server, To::Server, connection, &last, &way),
        pump(from_server, to_client, To::Client, connection, &last, &way),
    );
}

/// Ends when its source does. What it writes to is closed then, unless that is swallowed too: it is kept open for ever.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: To,
    connection: usize,
    last: &Mutex<(Statement, usize)>,
    way: &Between,
) -> Result<(), Broken> {
    let mut buffer = vec![0; 16 * 1024];
    let mut rule = way.rule.subscribe();
    let mut before = None;
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        let (statement, number) = {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if direction == To::Server && read > 0 {
                *last = (Statement::of(&buffer[..read]), last.1 + 1);
            }
            *last
        };
        let is_plain = direction == To::Server
            && statement != Statement::None
            && failing::is_plain(way.kind, &buffer[..read]);
        let message = Message { connection, to: direction, statement, number, is_end: read == 0, is_plain };
        // An answer may come in several pieces.
        let arrives = match before {
            Some((begun, arrives)) if begun == message && direction == To::Client && !changed(&rule) => {
                arrives
            }
            _ => way.judge(message, &mut rule).await?,
        };
        before = Some((message, arrives));
        match (read, arrives) {
            (0, Arrival::Nothing) => std::future::pending().await,
            (0, _) => return Ok(()),
            (read, Arrival::Whole) => to.write_all(&buffer[..read]).await?,
            (read, Arrival::Failing(code)) => {
                let failing = failing::request(way.kind, &buffer[..read], code);
                to.write_all(&failing.expect("only what is plain is failed")).await?;
            }
            (_, Arrival::Nothing) => {}
        }
    }
}

fn changed(rule: &watch::Receiver<Rule>) -> bool {
    rule.has_changed().unwrap_or(true)
}

impl Statement {
    fn of(request: &[u8]) -> Self {
        let has = |words: &str| request.windows(words.len()).any(|window| window == words.as_bytes());
        if has("INSERT INTO leader_sessions") {
            Self::Open
        } else if has("UPDATE leader_sessions") && !has("WHERE false") {
            Self::Renew
        } else if has("elected_at_ms = ") {
            Self::Claim
        } else if has("UNION ALL SELECT NULL, s.id") {
            Self::Scan
        } else if has("session_id = NULL") {
            Self::Release
        } else if has("; COMMIT; ") {
            Self::Commit
        } else if has("FOR SHARE) AS held") || has("LOCK IN SHARE MODE") {
            Self::Fence
        } else if has("LISTEN ") {
            Self::Listen
        } else if is_query(request) {
            Self::Other
        } else {
            Self::None
        }
    }
}

/// PostgreSQL's messages begin with what they are, MySQL's after a header of four bytes. Prepared statements count too.
fn is_query(request: &[u8]) -> bool {
    matches!(request.first(), Some(b'Q' | b'P' | b'B')) || matches!(request.get(4), Some(0x03 | 0x16 | 0x17))
}
