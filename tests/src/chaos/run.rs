//! Applies a schedule and writes down what happens.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::conditions::{Asked, Conditions};
use super::faults::Site;
use super::history::{Disturbance, History, Span, TIMINGS, WORKS};
use super::link::Link;
use super::observer::{Seen, observe};
use super::post::Post;
use super::pulse::Pulse;
use super::report::Report;
use super::schedule::{Lane, REPLICAS, Schedule, Timed};
use crate::harness::{Isolation, Kind, Launch, PATIENCE, Server, TestDatabase, now_ms};

/// Without a fault in the end, so that every name must find a leader.
const CALM: Duration = Duration::from_secs(10);

/// The pace of the works.
const EVERY: Duration = Duration::from_millis(200);

/// What is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program `replica`.
    pub program: PathBuf,
    /// What the schedules are drawn from.
    pub seed: u64,
    /// How long faults come, before the calm in the end.
    pub length: Duration,
    /// What of the conditions is not drawn.
    pub asked: Asked,
}

/// Runs replicas on each of these databases, side by side, and checks what they did. Where something is found, the logs
/// and the history are kept, and the report says where.
///
/// # Errors
///
/// When there is no place for logs.
pub async fn run_all(options: &Options, kinds: &[Kind]) -> io::Result<Vec<Report>> {
    let databases = TestDatabase::create_on_own_servers(kinds).await;
    let runs = databases.into_iter().map(|(database, server)| run(options, database, server));
    join_all(runs).await.into_iter().collect()
}

async fn run(options: &Options, database: TestDatabase, server: Option<Server>) -> io::Result<Report> {
    let kind = database.kind;
    // Whatever panics from here on, the logs stay.
    let mut logs = tempfile::Builder::new().prefix("leader-chaos-").disable_cleanup(true).tempdir()?;
    let conditions = Conditions::random(kind, options.seed, options.asked);
    let schedule = Schedule::random(kind, conditions.route, options.seed, options.length);
    let site = Site::new(database, server, conditions).await;
    let history = happen(options, conditions, &schedule, logs.path(), site).await;
    let report = Report::of(options.seed, &history, logs.path());
    if report.is_good() {
        logs.disable_cleanup(false);
    } else {
        let file = File::create(logs.path().join("history.json"))?;
        serde_json::to_writer_pretty(BufWriter::new(file), &history)?;
    }
    Ok(report)
}

/// Runs replicas on this database while the faults of the schedule come.
async fn happen(
    options: &Options,
    conditions: Conditions,
    schedule: &Schedule,
    logs: &Path,
    site: Site,
) -> History {
    let site = Arc::new(site);
    let (_, place) = site.place();
    let kind = place.database.kind;
    let mut unmet = site.routes.unmet(conditions, &place).await;
    let posts = (0..REPLICAS).map(|replica| {
        let launch = launch(options, conditions, &site.routes.url(replica, &place));
        Post::new(replica, &launch, logs.to_owned())
    });

    let from = now_ms();
    let begun = Instant::now();
    let enough = CancellationToken::new();
    let observer = tokio::spawn(observe(Arc::clone(&site), enough.clone()));
    let pulse = Pulse::feel(logs);
    let mut lanes = schedule.lanes();
    let over = CancellationToken::new();
    let posts = join_all(posts.enumerate().map(|(replica, post)| {
        let place = lanes.iter().position(|(lane, _)| *lane == Lane::Process(replica));
        let faults = place.map(|place| lanes.swap_remove(place).1).unwrap_or_default();
        stand(post, faults, begun, &over)
    }));
    let lanes = lanes.into_iter().map(|(_, faults)| tokio::spawn(disturb(Arc::clone(&site), faults, begun)));
    let lanes: Vec<_> = lanes.collect();
    let mended = async {
        let mut disturbances = Vec::new();
        for lane in lanes {
            disturbances.extend(lane.await.expect("what was broken is mended"));
        }
        // Some of it may have been late.
        sleep_until((begun + options.length).max(Instant::now()) + CALM).await;
        over.cancel();
        disturbances
    };
    let (posts, disturbances) = tokio::join!(posts, mended);
    let watched = Span { from, until: now_ms() };
    let processes = join_all(posts.into_iter().map(Post::dismiss)).await.concat();
    enough.cancel();
    let seen = tokio::time::timeout(PATIENCE, observer).await.expect("the database answers in the end");
    let Seen { rows, vanished, .. } = seen.expect("nothing panics there");
    let rows = rows.into_values().collect();
    let mut met = BTreeMap::new();
    for (trouble, messages) in site.routes.links().flat_map(Link::met) {
        *met.entry(trouble).or_default() += messages;
    }
    let (_, place) = site.place();
    unmet.extend(site.routes.unmet(conditions, &place).await);
    let pooled = site.routes.pooled(&place).await;
    let stalls = pulse.stalls();
    History { kind, conditions, unmet, pooled, watched, processes, disturbances, stalls, met, rows, vanished }
}

fn launch(options: &Options, conditions: Conditions, url: &str) -> Launch {
    let launch = Launch::bare(&options.program).flag("--database-url", url).timings(&TIMINGS);
    let mut launch = launch.every(EVERY);
    if conditions.isolation == Some(Isolation::Serializable) {
        // Two works that count and append are no series, and one of them fails. If both always did, one would get nowhere.
        launch = launch.flag("--count-every", "2");
    }
    WORKS.iter().fold(launch, |launch, (name, kind)| launch.work(name, kind))
}

/// The lane of one replica's processes.
async fn stand(mut post: Post, faults: Vec<Timed>, begun: Instant, over: &CancellationToken) -> Post {
    for timed in faults {
        post.tend(sleep_until(begun + timed.at)).await;
        post.apply(&timed).await;
    }
    post.tend(over.cancelled()).await;
    post
}

/// Any other lane.
async fn disturb(site: Arc<Site>, faults: Vec<Timed>, begun: Instant) -> Vec<Disturbance> {
    let mut disturbances = Vec::new();
    for timed in faults {
        sleep_until(begun + timed.at).await;
        disturbances.push(site.apply(timed).await);
    }
    disturbances
}
