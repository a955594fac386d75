//! SIGTERM and SIGINT: the first ends gracefully, a second one at once.

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::keeper::Command;

/// Whoever waits for a signal now.
pub(crate) struct Signals(Arc<Waiting>);

#[derive(Default)]
struct Waiting {
    first: CancellationToken,
    /// Told of the first signal directly, for the case that the application's runtime hangs.
    keeper: OnceLock<UnboundedSender<Command>>,
}

impl Signals {
    /// Waits for the first signal.
    pub(crate) async fn first(&self) {
        self.0.first.cancelled().await;
    }

    /// Tells this keeper of the first signal.
    pub(crate) fn tell(&self, keeper: UnboundedSender<Command>) {
        let _ = self.0.keeper.set(keeper);
    }
}

impl Waiting {
    fn hear(&self) {
        if let Some(keeper) = self.keeper.get() {
            let _ = keeper.send(Command::ShutDown);
        }
        self.first.cancel();
    }
}

/// Takes SIGTERM and SIGINT over, on a thread of their own: a second signal ends the process also when the application's
/// runtime hangs. When nobody waits for signals any more, they end the process as they do by default.
#[cfg(unix)]
pub(crate) fn listen() -> std::io::Result<Signals> {
    let signals = Signals(Arc::default());
    unix::listen(Arc::downgrade(&signals.0))?;
    Ok(signals)
}

#[cfg(unix)]
mod unix {
    use std::sync::{Arc, Mutex, PoisonError, Weak};
    use std::time::{Duration, Instant};

    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::low_level::{emulate_default_handler, signal_name};

    use super::Waiting;
    use crate::exit;

    /// What the thread knows; `None` before it runs. It runs once for all, since nothing hands a signal back.
    static LISTENERS: Mutex<Option<Vec<Weak<Waiting>>>> = Mutex::new(None);

    pub(super) fn listen(waiting: Weak<Waiting>) -> std::io::Result<()> {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listeners) = listeners.as_mut() {
            listeners.push(waiting);
            return Ok(());
        }
        let mut incoming = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
        std::thread::Builder::new().name("leader-signals".to_owned()).spawn(move || {
            let mut begun = None;
            for signal in incoming.forever() {
                heard(signal, &mut begun);
            }
        })?;
        *listeners = Some(vec![waiting]);
        Ok(())
    }

    fn heard(signal: i32, begun: &mut Option<Instant>) {
        /// A terminal, a wrapper and a process group can each deliver what a person sent once.
        const ONCE: Duration = Duration::from_millis(50);

        let name = signal_name(signal).unwrap_or("a signal");
        let waiting = waiting();
        if waiting.is_empty() {
            // It does not return for signals whose default is to end the process, and these two are.
            let _ = emulate_default_handler(signal);
        }
        if waiting.iter().any(|waiting| !waiting.first.is_cancelled()) {
            for waiting in waiting {
                waiting.hear();
            }
            let told = move || tracing::info!("{name}: ending gracefully; a second signal exits at once");
            exit::say(told, exit::LAST_WORDS);
            *begun = Some(Instant::now());
        } else if begun.is_none_or(|begun| begun.elapsed() >= ONCE) {
            let told = move || tracing::warn!("{name} for the second time: exiting at once");
            exit::say(told, exit::LAST_WORDS);
            exit::at_once(128 + signal);
        }
    }

    fn waiting() -> Vec<Arc<Waiting>> {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners = listeners.get_or_insert_default();
        listeners.retain(|waiting| waiting.strong_count() > 0);
        listeners.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Takes Ctrl-C over.
#[cfg(not(unix))]
pub(crate) fn listen() -> std::io::Result<Signals> {
    let signals = Signals(Arc::default());
    let waiting = Arc::downgrade(&signals.0);
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            let Some(waiting) = waiting.upgrade() else { return };
            if waiting.first.is_cancelled() {
                crate::exit::at_once(130);
            }
            waiting.hear();
        }
    });
    Ok(signals)
}
