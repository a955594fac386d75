//! A Kafka cluster with one topic, whose brokers can be taken away.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use futures::future::join_all;
use leader_tests::harness::PATIENCE;
use rskafka::chrono::DateTime;
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::record::Record;
use tokio::time::timeout;

pub(crate) const TOPIC: &str = "payments";
pub(crate) const PARTITIONS: i32 = 6;
/// They are numbered from 1.
pub(crate) const BROKERS: i32 = 3;

pub(crate) struct Cluster {
    /// Host and port of each broker.
    pub(crate) brokers: String,
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// By their number.
    partitions: Vec<PartitionClient>,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_mock_cluster"))
            .args([&BROKERS.to_string(), TOPIC, &PARTITIONS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program of this package");
        let orders = process.stdin.take().expect("a pipe");
        let mut answers = BufReader::new(process.stdout.take().expect("a pipe"));
        let brokers = line(&mut answers);
        let partitions = partitions(&brokers).await;
        Self { brokers, process, orders, answers, partitions }
    }

    /// Appends to each partition what is meant for it, in batches of so many.
    pub(crate) async fn append(&self, values: &[Vec<String>], batch: usize) {
        let appends = self.partitions.iter().zip(values).map(async |(partition, values)| {
            for batch in values.chunks(batch) {
                append(partition, batch).await;
            }
        });
        join_all(appends).await;
    }

    /// It closes its connections, and refuses others.
    pub(crate) fn take_down(&mut self, broker: i32) {
        self.order("down", broker);
    }

    pub(crate) fn bring_up(&mut self, broker: i32) {
        self.order("up", broker);
    }

    /// It takes what it is sent, and says nothing.
    pub(crate) fn silence(&mut self, broker: i32) {
        self.order("silent", broker);
    }

    pub(crate) fn end_silence(&mut self, broker: i32) {
        self.order("answering", broker);
    }

    fn order(&mut self, order: &str, broker: i32) {
        writeln!(self.orders, "{order} {broker}").expect("a cluster that listens");
        assert_eq!(line(&mut self.answers), "done", "{order} {broker}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// As one batch.
async fn append(partition: &PartitionClient, values: &[String]) {
    let record = |value: &String| Record {
        key: None,
        value: Some(value.clone().into_bytes()),
        headers: BTreeMap::new(),
        timestamp: DateTime::default(),
    };
    let appended = partition.produce(values.iter().map(record).collect(), Compression::NoCompression);
    timeout(PATIENCE, appended).await.expect("a broker that answers").expect("a broker that takes it");
}

fn line(from: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("a line of the cluster");
    line.trim_end().to_owned()
}

async fn partitions(brokers: &str) -> Vec<PartitionClient> {
    let brokers = brokers.split(',').map(ToOwned::to_owned).collect();
    let client = ClientBuilder::new(brokers).build().await.expect("a broker that answers");
    let mut partitions = Vec::new();
    for id in 0..PARTITIONS {
        let partition = client.partition_client(TOPIC, id, UnknownTopicHandling::Error).await;
        partitions.push(partition.expect("a partition of the topic"));
    }
    partitions
}
