//! With OpenTelemetry a tenure is one trace, and its id is the tenure's. A process of its own: there is one subscriber.

use std::time::Duration;

use leader::Tenure;
use leader_tests::harness::local::{Events, elector};
use leader_tests::harness::{Kind, TestDatabase, eventually};
use opentelemetry::trace::{SpanId, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenure_is_one_trace() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    tracing_subscriber::registry()
        .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("tests")))
        .init();
    let database = TestDatabase::create(Kind::Sqlite).await;
    let (sent, mut tenures) = tokio::sync::mpsc::unbounded_channel();
    let running = elector(&database.url, "first", &Events::default())
        .work("mail", move |tenure: Tenure| {
            let sent = sent.clone();
            async move {
                async {}.instrument(tracing::info_span!("step")).await;
                let _ = tenure.spawn(async {}.instrument(tracing::info_span!("task"))).await;
                let _ = sent.send(tenure.trace_id().to_owned());
            }
        })
        .start()
        .await
        .expect("started");
    let ids = [tenures.recv().await.expect("a tenure"), tenures.recv().await.expect("another")];
    assert_ne!(ids[0], ids[1]);
    for id in ids {
        let whole = async || {
            let spans: Vec<SpanData> = exporter.get_finished_spans().expect("exported");
            let trace: Vec<SpanData> =
                spans.into_iter().filter(|span| span.span_context.trace_id().to_string() == id).collect();
            trace.iter().any(|span| span.name == "tenure").then_some(trace)
        };
        let trace = eventually("the trace of a tenure", Duration::from_secs(20), whole).await;
        let root = trace.iter().find(|span| span.name == "tenure").expect("it was looked for");
        assert_eq!(root.parent_span_id, SpanId::INVALID, "{root:?}");
        for name in ["step", "task"] {
            assert!(trace.iter().any(|span| span.name == name), "{name} is not in {trace:#?}");
        }
    }
    running.shutdown().await.expect("shut down");
}
