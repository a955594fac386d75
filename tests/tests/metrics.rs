//! What a recorder of the crate `metrics` sees of an elector. A process of its own: there is one recorder.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use leader::EventKind;
use leader_tests::harness::local::{Events, Puppet, elector};
use leader_tests::harness::{Kind, TestDatabase, eventually};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorder_sees_tenures_and_statements() {
    let recorder = DebuggingRecorder::new();
    let seen = Seen { snapshotter: recorder.snapshotter(), series: Mutex::default() };
    recorder.install().expect("the only recorder");
    let database = TestDatabase::create(Kind::Sqlite).await;
    let (events, mut puppet) = (Events::default(), Puppet::default());
    let builder = elector(&database.url, "first", &events).namespace("shop").work("mail", puppet.work());
    let running = builder.start().await.expect("started");
    let first = puppet.tenure().await;
    seen.until("leader_leading{namespace=shop,name=mail}", 1.0).await;
    seen.until("leader_elections_total{namespace=shop,name=mail}", 1.0).await;
    assert_eq!(database.delete_sessions_of("first").await, 1);
    events.of(EventKind::SteppedDown, &first).await;
    seen.until("leader_losses_total{namespace=shop,name=mail}", 1.0).await;
    let lost = "leader_step_downs_total{namespace=shop,name=mail,reason=lease lost,failed=false}";
    seen.until(lost, 1.0).await;
    puppet.tenure().await;
    running.shutdown().await.expect("shut down");
    seen.until("leader_leading{namespace=shop,name=mail}", 0.0).await;
    assert_eq!(seen.value("leader_elections_total{namespace=shop,name=mail}"), Some(2.0));
    let renewals = seen.value("leader_statement_seconds{statement=renew}").expect("timed");
    assert!(renewals > 0.0, "{renewals}");
}

/// What was recorded so far: a snapshot takes what it shows away.
struct Seen {
    snapshotter: Snapshotter,
    series: Mutex<BTreeMap<String, f64>>,
}

impl Seen {
    /// The value of a series; of a histogram, how many there were.
    fn value(&self, series: &str) -> Option<f64> {
        let mut all = self.series.lock().expect("not poisoned");
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let key = key.key();
            let labels: Vec<String> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let known = all.entry(format!("{}{{{}}}", key.name(), labels.join(","))).or_default();
            #[allow(clippy::cast_precision_loss, reason = "they are small")]
            match value {
                DebugValue::Counter(count) => *known += count as f64,
                DebugValue::Gauge(value) => *known = value.0,
                DebugValue::Histogram(values) => *known += values.len() as f64,
            }
        }
        all.get(series).copied()
    }

    async fn until(&self, series: &str, value: f64) {
        let so = async || (self.value(series) == Some(value)).then_some(());
        eventually(&format!("{series} to be {value}"), Duration::from_secs(20), so).await;
    }
}
