//! A way to a server that turns into a black hole when the test says so.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::database::{Kind, TestDatabase};
use super::replica::PATIENCE;

/// Carries bytes to the server of a database and back, until it swallows them all: neither side hears of the other any
/// more, not even that it is gone. Dropped, it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    black: watch::Sender<bool>,
    swallowed: watch::Sender<usize>,
    listening: AbortHandle,
}

impl Proxy {
    /// Listens on a port of its own.
    ///
    /// # Panics
    ///
    /// When the database has no server, or no port is free.
    pub async fn to(database: &TestDatabase) -> Self {
        let default_port = match database.kind {
            Kind::Postgres => 5432,
            Kind::MySql => 3306,
            Kind::Sqlite => panic!("a file has no server"),
        };
        let (before, rest) = database.url.split_once('@').expect("a URL with a user");
        let (address, path) = rest.split_once('/').expect("a URL with a database");
        let target =
            if address.contains(':') { address.to_owned() } else { format!("{address}:{default_port}") };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().as_ref().map(SocketAddr::port).expect("bound");
        let (black, swallowed) = (watch::Sender::new(false), watch::Sender::new(0));
        let listening = tokio::spawn(listen(listener, target, black.clone(), swallowed.clone()));
        Self {
            url: format!("{before}@127.0.0.1:{port}/{path}"),
            black,
            swallowed,
            listening: listening.abort_handle(),
        }
    }

    /// The URL of the database by this way.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on it swallows everything.
    pub fn swallow(&self) {
        self.black.send_replace(true);
    }

    /// Waits until it has swallowed something, so that somebody waits for an answer in vain.
    ///
    /// # Panics
    ///
    /// When nobody has sent anything within [`PATIENCE`].
    pub async fn has_swallowed(&self) {
        let mut swallowed = self.swallowed.subscribe();
        let some = tokio::time::timeout(PATIENCE, swallowed.wait_for(|bytes| *bytes > 0)).await;
        some.expect("nobody sent anything into the black hole").expect("this holds the sender");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(
    listener: TcpListener,
    target: String,
    black: watch::Sender<bool>,
    swallowed: watch::Sender<usize>,
) {
    // Dropped with this task, and with it every connection.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let target = target.clone();
        let is_black = black.subscribe();
        let swallowed = swallowed.clone();
        connections.spawn(async move {
            let Ok(server) = TcpStream::connect(target).await else { return };
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            tokio::join!(
                pump(from_client, to_server, is_black.clone(), &swallowed),
                pump(from_server, to_client, is_black, &swallowed),
            );
        });
    }
}

/// Ends when its source does. What it writes to is closed then, unless the hole is black: it is kept open for ever.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    is_black: watch::Receiver<bool>,
    swallowed: &watch::Sender<usize>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        let lost = *is_black.borrow();
        match (read, lost) {
            (0, true) => return std::future::pending().await,
            (0, false) => return,
            (read, true) => swallowed.send_modify(|bytes| *bytes += read),
            (read, false) => {
                if to.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}
