//! An upstream that allows one session, and drops one that is silent.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leader_tests::harness::{PATIENCE, eventually};

pub(crate) struct Upstream {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Session>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What became of what was dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// It is there.
    Open,
    /// Closed by its replica.
    Closed,
    /// Dropped, since it was silent.
    Silent,
    /// Dialled beside an open one.
    Refused,
}

impl Upstream {
    pub(crate) fn start(patience: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket of this process");
        let address = listener.local_addr().expect("bound").to_string();
        let (seen, over) = (Arc::<Mutex<Vec<Session>>>::default(), Arc::<AtomicBool>::default());
        let server = Server { listener, patience, open: None, seen: Arc::clone(&seen) };
        let thread = std::thread::spawn({
            let over = Arc::clone(&over);
            move || server.serve(&over)
        });
        Self { address, seen, over, thread: Some(thread) }
    }

    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Waits until that many were dialled before the one that is open, and returns what became of the last of them.
    pub(crate) async fn opens_after(&self, before: usize) -> Option<Session> {
        let opened = async || {
            let sessions = self.sessions();
            let (last, closed) = sessions.split_last()?;
            (*last == Session::Open && closed.len() >= before).then(|| closed.last().copied())
        };
        eventually("the next session", PATIENCE, opened).await
    }

    /// Waits until no session is open.
    pub(crate) async fn closes(&self) {
        let closed = async || (!self.sessions().contains(&Session::Open)).then_some(());
        eventually("the end of the session", PATIENCE, closed).await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What the session of this number reads.
pub(crate) fn welcome(session: usize) -> String {
    format!("welcome, session {session}.")
}

struct Server {
    listener: TcpListener,
    patience: Duration,
    open: Option<Open>,
    seen: Arc<Mutex<Vec<Session>>>,
}

struct Open {
    stream: TcpStream,
    /// Its place among those seen.
    at: usize,
    heard: Instant,
}

impl Server {
    fn serve(mut self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            let next = self.listener.accept();
            // The end of the session that is open may have come before what was dialled now.
            self.listen_to_session();
            if let Ok((stream, _)) = next {
                self.admit(stream);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn admit(&mut self, mut stream: TcpStream) {
        let mut seen = self.seen.lock().expect("no panic");
        if self.open.is_some() {
            return seen.push(Session::Refused);
        }
        stream.set_nonblocking(true).expect("a socket of this process");
        // Then nothing more, for whoever reads on.
        let _ = writeln!(stream, "{}", welcome(seen.len() + 1));
        self.open = Some(Open { stream, at: seen.len(), heard: Instant::now() });
        seen.push(Session::Open);
    }

    fn listen_to_session(&mut self) {
        let Some(open) = &mut self.open else { return };
        let mut heartbeats = [0; 64];
        let became = match open.stream.read(&mut heartbeats) {
            Ok(0) => Session::Closed,
            Ok(_) => {
                open.heard = Instant::now();
                return;
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => Session::Closed,
            Err(_) if open.heard.elapsed() > self.patience => Session::Silent,
            Err(_) => return,
        };
        self.seen.lock().expect("no panic")[open.at] = became;
        self.open = None;
    }
}
