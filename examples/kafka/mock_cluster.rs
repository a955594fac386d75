//! librdkafka's mock of a Kafka cluster with one topic, for the test of the consumer.
//!
//! A process of its own: what a test starts inherits the connections that this accepts, and they would not close when the
//! mock closes them.
//!
//! It prints where its brokers are, then obeys what it reads, one order a line, and answers each. Its input ends it.

use std::error::Error;
use std::io::stdin;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::error::KafkaResult;
use rdkafka::mocking::MockCluster;

/// Longer than any test.
const NEVER: Duration = Duration::from_hours(1);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("mock_cluster BROKERS TOPIC PARTITIONS");
    let cluster = MockCluster::new(next()?.parse()?)?;
    cluster.create_topic(&next()?, next()?.parse()?, 1)?;
    println!("{}", cluster.bootstrap_servers());
    for line in stdin().lines() {
        let line = line?;
        let (order, broker) = line.split_once(' ').ok_or("ORDER BROKER")?;
        obey(&cluster, order, broker.parse()?)?;
        println!("done");
    }
    Ok(())
}

fn obey(cluster: &MockCluster<'_, impl ClientContext>, order: &str, broker: i32) -> KafkaResult<()> {
    match order {
        // It closes its connections, and refuses others.
        "down" => cluster.broker_down(broker),
        "up" => cluster.broker_up(broker),
        // It takes what it is sent, and says nothing.
        "silent" => cluster.broker_round_trip_time(broker, NEVER),
        "answering" => cluster.broker_round_trip_time(broker, Duration::ZERO),
        _ => panic!("no such order: {order}"),
    }
}
