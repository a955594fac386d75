//! The way of one replica to its server, with separate troubles for its keeper's connections and those of its works.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::schedule::{Trouble, Way, Whose};

/// Carries bytes between one replica and its server. Dropped, it cuts every connection.
#[derive(Debug)]
pub(super) struct Link {
    url: String,
    troubles: watch::Sender<Troubles>,
    listening: AbortHandle,
}

#[derive(Clone, Copy, Debug, Default)]
struct Troubles {
    keeper: Option<Trouble>,
    works: Option<Trouble>,
}

impl Link {
    /// Listens on a port of its own, for a database on this machine.
    pub(super) async fn to(database_url: &str) -> Self {
        let (before, rest) = database_url.split_once('@').expect("a URL with a user");
        let (target, path) = rest.split_once('/').expect("a URL with a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().as_ref().map(SocketAddr::port).expect("bound");
        let url = format!("{before}@127.0.0.1:{port}/{path}");
        let troubles = watch::Sender::new(Troubles::default());
        let listening = tokio::spawn(listen(listener, target.to_owned(), troubles.subscribe()));
        Self { url, troubles, listening: listening.abort_handle() }
    }

    /// The URL of the database by this way.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// From now on this happens, or nothing.
    pub(super) fn set(&self, whose: Whose, trouble: Option<Trouble>) {
        self.troubles.send_modify(|troubles| {
            if whose != Whose::Works {
                troubles.keeper = trouble;
            }
            if whose != Whose::Keeper {
                troubles.works = trouble;
            }
        });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, target: String, troubles: watch::Receiver<Troubles>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (target, troubles) = (target.clone(), troubles.clone());
        connections.spawn(async move {
            let Ok(server) = TcpStream::connect(target).await else { return };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let sky = Sky { troubles, of_works: Arc::default() };
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            let carry = async {
                tokio::join!(
                    pump(from_client, to_server, sky.clone(), Way::ToServer),
                    pump(from_server, to_client, sky.clone(), Way::FromServer),
                )
            };
            tokio::select! {
                _ = carry => {}
                () = sky.until(|trouble| trouble == Some(Trouble::Cut)) => {}
            }
        });
    }
}

/// The trouble of one connection.
#[derive(Clone)]
struct Sky {
    troubles: watch::Receiver<Troubles>,
    of_works: Arc<AtomicBool>,
}

impl Sky {
    fn now(&self) -> Option<Trouble> {
        self.choose(*self.troubles.borrow())
    }

    fn choose(&self, troubles: Troubles) -> Option<Trouble> {
        if self.of_works.load(Ordering::Relaxed) { troubles.works } else { troubles.keeper }
    }

    async fn until(&self, fits: impl Fn(Option<Trouble>) -> bool) {
        let mut troubles = self.troubles.clone();
        // An error says that the link is gone, and this with it.
        let _ = troubles.wait_for(|troubles| fits(self.choose(*troubles))).await;
    }

    /// Statements about the ledger are those of works.
    fn read(&self, bytes: &[u8]) {
        const LEDGER: &[u8] = b"INTO ledger ";
        if bytes.windows(LEDGER.len()).any(|window| window == LEDGER) {
            self.of_works.store(true, Ordering::Relaxed);
        }
    }
}

/// Ends when its source does, and closes what it writes to, after all that is still on the way.
async fn pump(from: OwnedReadHalf, to: OwnedWriteHalf, sky: Sky, way: Way) {
    let (sent, arriving) = mpsc::unbounded_channel();
    tokio::join!(send(from, sent, sky.clone(), way), deliver(arriving, to, sky, way));
}

async fn send(mut from: OwnedReadHalf, sent: mpsc::UnboundedSender<(Instant, Vec<u8>)>, sky: Sky, way: Way) {
    /// How long the other end of a connection whose bytes were swallowed is kept from hearing of its end. A server has
    /// only so many.
    const HALF_OPEN: Duration = Duration::from_secs(15);

    let mut buffer = vec![0; 16 * 1024];
    let mut lost = false;
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            break;
        }
        if way == Way::ToServer {
            sky.read(&buffer[..read]);
        }
        let late = match sky.now() {
            Some(Trouble::Late { by, way: of }) if concerns(of, way) => by,
            Some(Trouble::Swallowed { way: of }) if concerns(of, way) => {
                lost = true;
                Duration::ZERO
            }
            _ => Duration::ZERO,
        };
        if !lost && sent.send((Instant::now() + late, buffer[..read].to_vec())).is_err() {
            return;
        }
    }
    if lost {
        tokio::time::sleep(HALF_OPEN).await;
    }
}

async fn deliver(
    mut arriving: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
    mut to: OwnedWriteHalf,
    sky: Sky,
    way: Way,
) {
    while let Some((due, bytes)) = arriving.recv().await {
        tokio::time::sleep_until(due).await;
        sky.until(|trouble| !matches!(trouble, Some(Trouble::Held { way: of }) if concerns(of, way))).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

fn concerns(trouble: Way, way: Way) -> bool {
    trouble == Way::Both || trouble == way
}
