//! Hears of releases, on a connection of its own. Losing it costs nothing but speed.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, raw_sql};
use tokio::sync::Notify;

/// How long after a connection was lost the next one is dialled, at first and on average.
const PAUSE: Duration = Duration::from_secs(2);

/// Listens for releases for ever. Losing this connection costs nothing but speed.
pub(super) async fn listen(options: PgConnectOptions, channel: String, notified: Arc<Notify>) {
    const LONGEST_PAUSE: Duration = Duration::from_mins(1);

    let mut pause = PAUSE;
    let mut said = false;
    let mut rng = crate::random::generator();
    loop {
        let heard = hear(&options, &channel, &notified, &mut said, &mut pause).await;
        // Transitions only: a server that is away for an hour is not worth 3,600 lines.
        if !std::mem::replace(&mut said, true) {
            match heard {
                Ok(()) => tracing::info!(
                    "LISTEN does not deliver here (a pooler in transaction mode?); standbys notice releases by scanning"
                ),
                Err(error) => {
                    tracing::warn!(%error, "lost the connection that listens for releases; standbys notice them by scanning until it is back");
                }
            }
        }
        // A server that goes away is noticed by all of its replicas at one instant; they come back one by one.
        tokio::time::sleep(pause.mul_f64(0.25 + 1.5 * rng.f64())).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Passes notifications on; returns when the connection is lost, or when it does not deliver.
async fn hear(
    options: &PgConnectOptions,
    channel: &str,
    notified: &Notify,
    said: &mut bool,
    pause: &mut Duration,
) -> Result<(), sqlx::Error> {
    const SET_UP: Duration = Duration::from_secs(10);
    /// A network that forgets an idle connection tells nobody.
    const QUIET: Duration = Duration::from_secs(30);

    let timed_out = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    let set_up = tokio::time::timeout(SET_UP, set_up(options, channel));
    let Some(mut listener) = set_up.await.map_err(timed_out)?? else { return Ok(()) };
    if std::mem::replace(said, false) {
        tracing::info!("listening for releases again");
    }
    *pause = PAUSE;
    // Releases may have been missed while nobody listened.
    notified.notify_one();
    loop {
        match tokio::time::timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(_))) => notified.notify_one(),
            Ok(Ok(None)) => return Err(closed()),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let alive = tokio::time::timeout(SET_UP, backend(&mut listener));
                alive.await.map_err(timed_out)??;
            }
        }
    }
}

/// A connection that listens, unless it would never deliver.
async fn set_up(options: &PgConnectOptions, channel: &str) -> Result<Option<PgListener>, sqlx::Error> {
    const TEST: Duration = Duration::from_secs(1);
    const LOOKS: u32 = 3;

    // Not from the pool, which would dial a server that is starting again and again, beside everybody else's.
    let mut other = PgConnection::connect_with(options).await?;
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.ignore_pool_close_event(true);
    listener.eager_reconnect(false);
    // Behind a pooler in transaction mode LISTEN is answered and never delivers. Worse, it stays on a connection of the
    // server that serves others next, and who did not listen is confused by what it hears. Two clients that are served by
    // one backend, or one that is served by two, give such a pooler away before anything was said. While it serves others
    // as well, one look may find nothing.
    let mut served = None;
    for _ in 0..LOOKS {
        let now = (backend(&mut listener).await?, backend(&mut other).await?);
        if now.0 == now.1 || served.is_some_and(|before| before != now) {
            return Ok(None);
        }
        served = Some(now);
    }
    // It is idle for long, and on purpose. (The setting came with PostgreSQL 14.)
    let patience = "SELECT set_config('idle_session_timeout', '0', false) \
         WHERE current_setting('idle_session_timeout', true) IS NOT NULL";
    raw_sql(patience).execute(&mut listener).await?;
    // On a channel of its own: what is said on the other wakes every standby there is.
    let test = format!("leader_test_{:032x}", crate::random::bits());
    listener.listen_all([channel, &test]).await?;
    // From the other connection: a pooler delivers what a client says to itself while it is being served.
    let said_so = raw_sql(AssertSqlSafe(format!("SELECT pg_notify('{test}', '')"))).execute(&mut other).await;
    drop(other);
    match (said_so, tokio::time::timeout(TEST, heard(&mut listener, &test)).await) {
        (Ok(_), Ok(heard)) => {
            heard?;
            listener.unlisten(&test).await?;
            Ok(Some(listener))
        }
        (Err(_), _) | (_, Err(_)) => {
            // A pooler after all.
            listener.unlisten_all().await?;
            Ok(None)
        }
    }
}

/// Waits for a notification on this channel.
async fn heard(listener: &mut PgListener, channel: &str) -> Result<(), sqlx::Error> {
    while listener.try_recv().await?.ok_or_else(closed)?.channel() != channel {}
    Ok(())
}

/// sqlx's listener only says that it has no connection any more.
fn closed() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())
}

/// The process of the server that serves a connection now.
async fn backend<'c>(
    connection: impl sqlx::Executor<'c, Database = sqlx::Postgres>,
) -> Result<i32, sqlx::Error> {
    raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}
