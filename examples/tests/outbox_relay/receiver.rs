//! A receiver that knows what it has, and answers when the test says so.

use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use leader_tests::harness::PATIENCE;

pub(crate) struct Receiver {
    pub(crate) url: String,
    seen: Arc<Seen>,
    listening: AbortHandle,
}

/// What was received, in the order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) term: i64,
    pub(crate) records: Vec<Record>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: i64,
    pub(crate) key: String,
    pub(crate) payload: String,
}

#[derive(Default)]
struct Seen {
    batches: Mutex<Vec<Batch>>,
    hold: Mutex<Option<Hold>>,
}

struct Hold {
    arrived: oneshot::Sender<i64>,
    answer: oneshot::Receiver<()>,
}

/// A batch that is received and not answered until this is dropped.
pub(crate) struct Held {
    arrived: oneshot::Receiver<i64>,
    _answer: oneshot::Sender<()>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/records", listener.local_addr().expect("bound"));
        let seen = Arc::<Seen>::default();
        let listening = tokio::spawn(listen(listener, Arc::clone(&seen))).abort_handle();
        Self { url, seen, listening }
    }

    /// The next batch is received, and not answered until what this returns is dropped.
    pub(crate) fn hold(&self) -> Held {
        let (tell, arrived) = oneshot::channel();
        let (keep, answer) = oneshot::channel();
        *self.seen.hold.lock().expect("no panic") = Some(Hold { arrived: tell, answer });
        Held { arrived, _answer: keep }
    }

    pub(crate) fn batches(&self) -> Vec<Batch> {
        self.seen.batches.lock().expect("no panic").clone()
    }
}

impl Held {
    /// Waits until a batch has arrived, and returns the term it was sent under.
    pub(crate) async fn arrived(&mut self) -> i64 {
        let arrived = tokio::time::timeout(PATIENCE, &mut self.arrived).await;
        arrived.expect("a batch in good time").expect("the receiver tells")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, seen: Arc<Seen>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&seen)));
    }
}

async fn serve(stream: TcpStream, seen: Arc<Seen>) {
    let service = service_fn(|request| take(request, &seen));
    // A sender that dies in the middle is what the tests are about.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn take(request: Request<Incoming>, seen: &Seen) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let term = request.headers()["leader-term"].to_str().ok().and_then(|term| term.parse().ok());
    let term = term.expect("a number");
    let body = request.into_body().collect().await?.to_bytes();
    let records = serde_json::from_slice(&body).expect("records");
    seen.batches.lock().expect("no panic").push(Batch { term, records });

    let hold = seen.hold.lock().expect("no panic").take();
    if let Some(Hold { arrived, answer }) = hold {
        let _ = arrived.send(term);
        let _: Result<(), _> = answer.await;
    }
    Ok(Response::new(Empty::new()))
}
