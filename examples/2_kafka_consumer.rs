//! Books the payments of a Kafka topic into a ledger.
//!
//! The leader consumes every partition. There is no consumer group: it would be a second coordinator, with a session
//! timeout of its own. How far each partition has been consumed is written in the database.
//!
//! Guaranteed:
//! - Each record is applied once, whatever happens to replicas and brokers. What it brings and the offset behind it are
//!   written in one fenced transaction, and the next tenure goes on from that offset.
//! - The records of a partition are applied in their order.
//! - No record is passed over in silence. One that is no payment is put aside, in the same transaction. What else is in the
//!   way is an error, again and again, until somebody sees to it: a payment that the database refuses, an offset that the
//!   brokers no longer have.
//! - When a partition has brought nothing for 30 s (`--quiet`), its broker is asked whether it is there. If it does not answer
//!   within 5 s (`--answer`), the name is given back: another replica may reach it.
//!
//! Not guaranteed:
//! - That the topic flows on around what is in the way. A record that the database refuses, or a broker that nobody reaches,
//!   is an error of its partition, and the first of these ends the tenure: it holds up all partitions.
//! - That what is done outside the database for a record is done once.
//! - That partitions which are added to the topic are consumed before the next tenure.
//! - That what a producer's transaction has aborted is left out: `rskafka` 0.6 cannot. Topics with such producers need
//!   another client.
//!
//! ```console
//! $ cargo run --features programs --bin kafka_consumer -- --brokers one:9092,two:9092 --topic payments
//! $ echo '{"account": "Ada", "amount": 1200}' | kafka-console-producer.sh --bootstrap-server one:9092 --topic payments
//! $ sqlite3 ledger.db "SELECT * FROM entries"
//! ```
//!
//! A cluster that wants to know who asks, or to be asked by TLS, is told in `Topic::dial`: `.sasl_config(…)` takes a
//! `rskafka::client::SaslConfig`, and `.tls_config(…)`, with the feature `transport-tls` of `rskafka`, the configuration of
//! a rustls client. What producers have compressed is read with its features `compression-gzip`, `-lz4`, `-snappy` and
//! `-zstd`. None is on here, and a batch that cannot be read is an error.

mod shared;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::num::ParseIntError;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use db::{Db, on};
use futures::future::try_join_all;
use leader::{State, Tenure, Timings, TransactionError};
use rskafka::BackoffConfig;
use rskafka::client::partition::{OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, error};
use rskafka::record::RecordAndOffset;
use serde::Deserialize;
use tokio::time::timeout;

/// No entry knows its record: nothing but the offset keeps a payment from being booked twice.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS entries (id {counts}, account TEXT NOT NULL, amount BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS put_aside (
        topic TEXT, part INTEGER, at_offset BIGINT, reason TEXT NOT NULL, PRIMARY KEY (topic, part, at_offset)
    );
    CREATE TABLE IF NOT EXISTS offsets (
        topic TEXT, part INTEGER, next_offset BIGINT NOT NULL, PRIMARY KEY (topic, part)
    )";

/// How many records at most are applied in one transaction.
const BATCH: usize = 100;
/// How many bytes at most a poll brings.
const FETCH: i32 = 1 << 20;

// Nothing here asks whether the tenure is over: its end drops the work, wherever that waits. And nothing checks before it acts:
// all that is done is done in the database, and fenced.
#[leader::work("payments", on_end = "drop")]
async fn payments(tenure: Tenure, State(db): State<Db>, State(topic): State<Topic>) -> anyhow::Result<()> {
    let client = topic.dial().await?;
    let partitions = topic.partitions(&client).await?;
    let consumers = partitions.into_iter().map(async |id| {
        let consumed = consume(&tenure, &db, &topic, &client, id).await;
        consumed.with_context(|| format!("partition {id} of {}", topic.name))
    });
    // The first that fails ends them all.
    try_join_all(consumers).await?;
    Ok(())
}

/// One partition, from where the last tenure got to.
async fn consume(
    tenure: &Tenure,
    db: &Db,
    topic: &Topic,
    client: &Client,
    id: i32,
) -> anyhow::Result<Infallible> {
    let partition = client.partition_client(&topic.name, id, UnknownTopicHandling::Retry);
    let partition = topic.answer(partition).await?;
    let mut next = start(tenure, db, topic, &partition).await?;
    loop {
        let records = poll(topic, &partition, next).await?;
        for batch in records.chunks(BATCH) {
            next = apply(tenure, db, &partition, next, batch).await?;
        }
    }
}

/// Where the last tenure got to, or the earliest record if nobody has consumed the partition yet.
async fn start(tenure: &Tenure, db: &Db, topic: &Topic, partition: &PartitionClient) -> anyhow::Result<i64> {
    if let Some(next) = offset(db, partition).await? {
        return Ok(next);
    }
    let earliest = topic.answer(partition.get_offset(OffsetAt::Earliest)).await?;
    // Written before there is a record: the next tenure would pass over what the brokers have deleted until then.
    Ok(apply(tenure, db, partition, earliest, &[]).await?)
}

/// What there is from this offset on: at least one record, or none if it was quiet and the broker is there.
async fn poll(topic: &Topic, partition: &PartitionClient, next: i64) -> anyhow::Result<Vec<RecordAndOffset>> {
    let arrival = async {
        loop {
            let (records, _) = partition.fetch_records(next, 1..FETCH, 500).await?;
            if !records.is_empty() {
                return Ok(records);
            }
        }
    };
    if let Ok(records) = timeout(topic.quiet, arrival).await {
        return records;
    }
    topic.answer(partition.get_offset(OffsetAt::Latest)).await?;
    Ok(Vec::new())
}

/// The one that is written down, if any is.
async fn offset(db: &Db, partition: &PartitionClient) -> sqlx::Result<Option<i64>> {
    const OFFSET: &str = "SELECT next_offset FROM offsets WHERE topic = $1 AND part = $2";

    let (topic, part) = (partition.topic(), partition.partition());
    on!(db, pool => sqlx::query_scalar(OFFSET).bind(topic).bind(part).fetch_optional(pool).await)
}

/// What the records from `next` on bring and the offset behind them: both or neither, and only by the replica that leads.
async fn apply(
    tenure: &Tenure,
    db: &Db,
    partition: &PartitionClient,
    next: i64,
    records: &[RecordAndOffset],
) -> Result<i64, TransactionError> {
    const BOOK: &str = "INSERT INTO entries (account, amount) VALUES ($1, $2)";
    const PUT_ASIDE: &str = "INSERT INTO put_aside (topic, part, at_offset, reason) VALUES ($1, $2, $3, $4)";
    const MOVE: &str = "INSERT INTO offsets (topic, part, next_offset) VALUES ($1, $2, $3) \
                        ON CONFLICT (topic, part) DO UPDATE SET next_offset = excluded.next_offset";

    let (topic, part) = (partition.topic(), partition.partition());
    let next = records.last().map_or(next, |last| last.offset + 1);
    on!(db, pool => tenure.transaction(pool, async |tx| {
        for RecordAndOffset { record, offset } in records {
            let written = match Payment::parse(record.value.as_deref()) {
                Ok(Payment { account, amount }) => sqlx::query(BOOK).bind(account).bind(amount).execute(&mut **tx).await,
                Err(reason) => {
                    tracing::error!(topic, part, offset, %reason, "no payment; put aside");
                    let reason = reason.to_string();
                    sqlx::query(PUT_ASIDE).bind(topic).bind(part).bind(offset).bind(reason).execute(&mut **tx).await
                }
            };
            written?;
        }
        sqlx::query(MOVE).bind(topic).bind(part).bind(next).execute(&mut **tx).await?;
        Ok(next)
    }).await)
}

#[derive(Deserialize)]
struct Payment {
    account: String,
    amount: i64,
}

impl Payment {
    fn parse(value: Option<&[u8]>) -> serde_json::Result<Self> {
        serde_json::from_slice(value.unwrap_or_default())
    }
}

#[derive(Clone)]
struct Topic {
    brokers: Vec<String>,
    name: String,
    quiet: Duration,
    answer: Duration,
}

impl Topic {
    async fn dial(&self) -> anyhow::Result<Client> {
        // A broker that was away is found again within a second.
        let backoff = BackoffConfig { max_backoff: Duration::from_secs(1), ..BackoffConfig::default() };
        self.answer(ClientBuilder::new(self.brokers.clone()).backoff_config(backoff).build()).await
    }

    async fn partitions(&self, client: &Client) -> anyhow::Result<BTreeSet<i32>> {
        let topics = self.answer(client.list_topics()).await?;
        let topic = topics.into_iter().find(|topic| topic.name == self.name);
        Ok(topic.with_context(|| format!("there is no topic {}", self.name))?.partitions)
    }

    /// The client would ask for ever.
    async fn answer<T>(&self, call: impl Future<Output = error::Result<T>>) -> anyhow::Result<T> {
        Ok(timeout(self.answer, call).await.context("no broker answers")??)
    }
}

/// Books the payments of a Kafka topic into a ledger
#[derive(Parser)]
struct Flags {
    /// Where the ledger and the offsets are
    #[arg(long, env, default_value = "sqlite:ledger.db")]
    database_url: String,
    /// Host and port of some brokers; they tell of the others
    #[arg(long, env, value_delimiter = ',', required = true)]
    brokers: Vec<String>,
    /// The topic
    #[arg(long, env, default_value = "payments")]
    topic: String,
    /// Seconds without a record after which the broker of a partition is asked whether it is there
    #[arg(long, env, default_value = "30", value_parser = seconds)]
    quiet: Duration,
    /// Seconds within which a broker that is asked must have answered
    #[arg(long, env, default_value = "5", value_parser = seconds)]
    answer: Duration,
    /// Seconds that a lease lasts; the other timings keep their proportions to it
    #[arg(long = "lease", env = "LEASE", default_value = "15", value_parser = shared::timings)]
    timings: Timings,
}

fn seconds(text: &str) -> Result<Duration, ParseIntError> {
    text.parse().map(Duration::from_secs)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    shared::log();
    let db = Db::connect(&flags.database_url).await?;
    db.create(TABLES).await?;

    leader::Elector::builder()
        .database(&db)
        .timings(flags.timings)
        .state(db)
        .state(Topic { brokers: flags.brokers, name: flags.topic, quiet: flags.quiet, answer: flags.answer })
        .run()
        .await?;
    Ok(())
}
