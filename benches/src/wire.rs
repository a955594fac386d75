//! What a client sends to a server, counted on the way.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::place::Database;

/// A way to a server that counts the messages that wait for an answer: the round trips. Dropped, it is cut.
#[derive(Debug)]
pub struct Counter {
    url: String,
    messages: Arc<AtomicU64>,
    listening: AbortHandle,
}

impl Counter {
    /// Listens on a port of its own. The server must do without TLS, which nobody can read.
    ///
    /// # Errors
    ///
    /// When the URL is none of a server.
    pub async fn to(database: Database, url: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (target, mut by_here, dialect) = match database {
            Database::Postgres => {
                let options = PgConnectOptions::from_str(url)?;
                let target = format!("{}:{}", options.get_host(), options.get_port());
                let options = options.host("127.0.0.1").port(port);
                (target, options.to_url_lossy(), Dialect::Postgres)
            }
            Database::Mysql => {
                let options = MySqlConnectOptions::from_str(url)?;
                let target = format!("{}:{}", options.get_host(), options.get_port());
                let options = options.host("127.0.0.1").port(port);
                (target, options.to_url_lossy(), Dialect::MySql)
            }
            Database::Sqlite => bail!("nothing is sent to a file"),
        };
        // Without what sqlx adds to it and others do not understand.
        by_here.set_query(url.split_once('?').map(|(_, query)| query));
        let messages = Arc::<AtomicU64>::default();
        let listening = tokio::spawn(listen(listener, target, dialect, Arc::clone(&messages)));
        Ok(Self { url: by_here.to_string(), messages, listening: listening.abort_handle() })
    }

    /// The URL of the database by this way.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many messages have been sent so far.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, target: String, dialect: Dialect, messages: Arc<AtomicU64>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (target, messages) = (target.clone(), Arc::clone(&messages));
        connections.spawn(async move {
            let Ok(server) = TcpStream::connect(target).await else { return };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (client.into_split(), server.into_split());
            let there = async {
                let mut frames = Frames::new(dialect);
                let mut buffer = vec![0; 16 * 1024];
                while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                    messages.fetch_add(frames.count(&buffer[..read]), Ordering::Relaxed);
                    if to_server.write_all(&buffer[..read]).await.is_err() {
                        break;
                    }
                }
                let _ = to_server.shutdown().await;
            };
            let back = tokio::io::copy(&mut from_server, &mut to_client);
            tokio::select! {
                () = there => {}
                _ = back => {}
            }
        });
    }
}

/// How a client frames what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Postgres,
    MySql,
}

/// Finds the messages in a stream of bytes.
struct Frames {
    dialect: Dialect,
    /// PostgreSQL begins with messages without a type.
    greeted: bool,
    head: Vec<u8>,
    /// How many bytes of the present message are still to come.
    rest: usize,
}

impl Frames {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, greeted: dialect == Dialect::MySql, head: Vec::new(), rest: 0 }
    }

    /// How many messages that wait for an answer begin in these bytes.
    fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut found = 0;
        while let Some((first, others)) = bytes.split_first() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            bytes = others;
            self.head.push(*first);
            if let Some((rest, waits)) = self.read_head() {
                self.head.clear();
                self.rest = rest;
                found += u64::from(waits);
            }
        }
        found
    }

    /// What the head says once it is complete: how many bytes follow, and whether the client waits for an answer.
    fn read_head(&mut self) -> Option<(usize, bool)> {
        /// `SSLRequest` and `GSSENCRequest`: the greeting proper follows.
        const REQUESTS: [usize; 2] = [80_877_103, 80_877_104];
        const QUIT: u8 = 0x01;
        const STATEMENT_CLOSE: u8 = 0x19;

        match (self.dialect, self.greeted, self.head.as_slice()) {
            (Dialect::Postgres, false, [size @ .., _, _, _, _]) if size.len() == 4 => {
                self.greeted = !REQUESTS.contains(&number(&self.head[4..]));
                Some((number(size).saturating_sub(8), false))
            }
            (Dialect::Postgres, true, [kind, size @ ..]) if size.len() == 4 => {
                // A simple query, or the `Sync` that ends an extended one.
                Some((number(size).saturating_sub(4), [b'Q', b'S'].contains(kind)))
            }
            (Dialect::MySql, _, [0, 0, 0, _]) => Some((0, false)),
            (Dialect::MySql, _, &[low, middle, high, sequence, command]) => {
                // What follows the first packet of a conversation carries on the count.
                let waits = sequence == 0 && command != QUIT && command != STATEMENT_CLOSE;
                Some((number(&[high, middle, low]) - 1, waits))
            }
            _ => None,
        }
    }
}

fn number(big_endian: &[u8]) -> usize {
    big_endian.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let postgres = [
            [&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat(),
            [&13_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes(), b"user\0"].concat(),
            [b"Q", &13_u32.to_be_bytes()[..], b"SELECT 1\0"].concat(),
            [b"P", &6_u32.to_be_bytes()[..], b"\0\0", b"S", &4_u32.to_be_bytes()].concat(),
        ]
        .concat();
        let mysql = [
            &[4, 0, 0, 1][..],
            b"auth",
            &[0, 0, 0, 3],
            &[9, 0, 0, 0, 0x03],
            b"SELECT 1",
            &[5, 0, 0, 0, 0x19, 1, 0, 0, 0],
            &[1, 0, 0, 0, 0x0e],
            &[1, 0, 0, 0, 0x01],
        ]
        .concat();
        for (dialect, bytes) in [(Dialect::Postgres, postgres), (Dialect::MySql, mysql)] {
            for size in 1..bytes.len() {
                let mut frames = Frames::new(dialect);
                let found: u64 = bytes.chunks(size).map(|chunk| frames.count(chunk)).sum();
                assert_eq!(found, 2, "{dialect:?} in pieces of {size}");
            }
        }
    }
}
