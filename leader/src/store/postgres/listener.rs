//! Hears of releases, on a connection of its own. Losing it costs nothing but speed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row, raw_sql};
use tokio::sync::Notify;

use super::takes_no_notification;
use crate::database::Address;
use crate::name::WorkName;
use crate::protocol::Hint;

/// How long after a connection was lost the next one is dialled, at first and on average.
const PAUSE: Duration = Duration::from_secs(2);

/// What was heard and not asked for yet.
#[derive(Default)]
pub(super) struct Mailbox {
    hint: Mutex<Option<Hint>>,
    filled: Notify,
}

impl Mailbox {
    fn put(&self, hint: Hint) {
        let mut there = self.hint.lock().unwrap_or_else(PoisonError::into_inner);
        *there = Some(match there.take() {
            Some(before) => both(before, hint),
            None => hint,
        });
        self.filled.notify_one();
    }

    /// Cancel safe.
    pub(super) async fn take(&self) -> Hint {
        loop {
            if let Some(hint) = self.hint.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return hint;
            }
            self.filled.notified().await;
        }
    }
}

/// One hint for two, of a bounded size: nobody takes them out while nothing is campaigned for.
fn both(one: Hint, two: Hint) -> Hint {
    const MOST: usize = 1_000;

    match (one, two) {
        (Hint::Freed(one), Hint::Freed(two)) => {
            let names: BTreeSet<WorkName> = one.into_iter().chain(two).collect();
            if names.len() > MOST { Hint::Look } else { Hint::Freed(names.into_iter().collect()) }
        }
        _ => Hint::Look,
    }
}

/// What an announcement says: a name a line, or nothing in particular.
fn hint(announcement: &str) -> Hint {
    announcement.split('\n').map(WorkName::new).collect::<Result<_, _>>().map_or(Hint::Look, Hint::Freed)
}

/// Listens for releases for ever. Losing this connection costs nothing but speed.
pub(super) async fn listen(address: Address<sqlx::Postgres>, channel: String, heard: Arc<Mailbox>) {
    const LONGEST_PAUSE: Duration = Duration::from_mins(1);

    let mut pause = PAUSE;
    let mut said = false;
    let mut rng = crate::random::generator();
    loop {
        let options = address.options().disable_statement_logging();
        let end = hear(&options, &channel, &heard, &mut said, &mut pause).await;
        // Transitions only: a server that is away for an hour is not worth 3,600 lines.
        if !std::mem::replace(&mut said, true) {
            match end {
                Ok(()) => tracing::info!(
                    "LISTEN does not deliver here (a pooler in transaction mode?); standbys notice releases by looking"
                ),
                Err(error) => {
                    tracing::warn!(%error, "lost the connection that listens for releases; standbys notice them by looking until it is back");
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
    heard: &Mailbox,
    said: &mut bool,
    pause: &mut Duration,
) -> Result<(), sqlx::Error> {
    const SET_UP: Duration = Duration::from_secs(10);
    /// A network that forgets an idle connection tells nobody.
    const QUIET: Duration = Duration::from_secs(30);

    let timed_out = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    let set_up = tokio::time::timeout(SET_UP, set_up(options, channel));
    let Some((mut listener, readable)) = set_up.await.map_err(timed_out)?? else { return Ok(()) };
    if std::mem::replace(said, false) {
        tracing::info!("listening for releases again");
    }
    *pause = PAUSE;
    // Releases may have been missed while nobody listened.
    heard.put(Hint::Look);
    loop {
        match tokio::time::timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => {
                heard.put(if readable { hint(notification.payload()) } else { Hint::Look });
            }
            Ok(Ok(None)) => return Err(closed()),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let alive = tokio::time::timeout(SET_UP, backend(&mut listener));
                alive.await.map_err(timed_out)??;
            }
        }
    }
}

/// A connection that listens, unless it would never deliver; and whether what it hears can be read.
async fn set_up(
    options: &PgConnectOptions,
    channel: &str,
) -> Result<Option<(PgListener, bool)>, sqlx::Error> {
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
    // There somebody could say bytes that are no text, at which sqlx panics.
    let readable = "SELECT current_setting('server_encoding') <> 'SQL_ASCII'";
    let readable: bool = raw_sql(readable).fetch_one(&mut listener).await?.try_get(0)?;
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
            Ok(Some((listener, readable)))
        }
        // That some day the server will again is worth a connection.
        (Err(error), _) if takes_no_notification(&error) => Ok(Some((listener, readable))),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(names: &[&str]) -> Hint {
        Hint::Freed(names.iter().map(|name| WorkName::new(*name).expect("a name")).collect())
    }

    #[test]
    fn an_announcement_names_what_was_given_back_or_asks_for_a_look() {
        assert_eq!(hint("a"), freed(&["a"]));
        assert_eq!(hint("a\nb c\nd"), freed(&["a", "b c", "d"]));
        // Of a session that was closed, of too many names, of another version, of nobody known.
        for announcement in ["", "\n", "a\n", "\u{1}", " a", &"a".repeat(192)] {
            assert_eq!(hint(announcement), Hint::Look, "{announcement:?}");
        }
    }

    #[tokio::test]
    async fn what_is_heard_meanwhile_becomes_one_hint() {
        let heard = Mailbox::default();
        for hint in [freed(&["b"]), freed(&["a"]), freed(&["b"])] {
            heard.put(hint);
        }
        assert_eq!(heard.take().await, freed(&["a", "b"]));
        for hint in [freed(&["a"]), Hint::Look, freed(&["b"])] {
            heard.put(hint);
        }
        assert_eq!(heard.take().await, Hint::Look);
        for number in 0..2_000 {
            heard.put(freed(&[&number.to_string()]));
        }
        assert_eq!(heard.take().await, Hint::Look, "so many names are not kept");
    }
}
