//! SIGTERM and SIGINT: the first ends gracefully, a second one at once.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::keeper::Command;

/// Signals that were asked to come here.
pub(crate) struct Signals {
    first: CancellationToken,
    /// Told of the first signal directly, for the case that the application's runtime hangs.
    keeper: Arc<OnceLock<UnboundedSender<Command>>>,
    /// Cancelled when nobody waits for signals any more.
    over: CancellationToken,
}

impl Signals {
    /// Waits for the first signal.
    pub(crate) async fn first(&self) {
        self.first.cancelled().await;
    }

    /// Tells this keeper of the first signal.
    pub(crate) fn tell(&self, keeper: UnboundedSender<Command>) {
        let _ = self.keeper.set(keeper);
    }
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            first: CancellationToken::new(),
            keeper: Arc::default(),
            over: CancellationToken::new(),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

/// Takes SIGTERM and SIGINT over, on a thread of its own: a second signal ends the process also when the application's
/// runtime hangs. Once the [`Signals`] are dropped, signals do what they did before.
#[cfg(unix)]
pub(crate) fn listen() -> std::io::Result<Signals> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::low_level::{emulate_default_handler, signal_name};

    /// A terminal, a wrapper and a process group can each deliver what a person sent once.
    const ONCE: Duration = Duration::from_millis(50);

    let mut incoming = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
    let signals = Signals::default();
    let (first, over, keeper) = (signals.first.clone(), signals.over.clone(), Arc::clone(&signals.keeper));
    std::thread::Builder::new()
        .name("leader-signals".to_owned())
        .spawn(move || {
            let mut begun: Option<Instant> = None;
            for signal in incoming.forever() {
                let name = signal_name(signal).unwrap_or("a signal");
                if over.is_cancelled() {
                    // It does not return for signals whose default is to end the process, and these two are.
                    let _ = emulate_default_handler(signal);
                } else if let Some(begun) = begun {
                    if begun.elapsed() < ONCE {
                        continue;
                    }
                    tracing::warn!("{name} for the second time: exiting at once");
                    crate::exit::at_once(128 + signal);
                } else {
                    begun = Some(Instant::now());
                    tracing::info!("{name}: ending gracefully; a second signal exits at once");
                    if let Some(keeper) = keeper.get() {
                        let _ = keeper.send(Command::ShutDown);
                    }
                    first.cancel();
                }
            }
        })?;
    Ok(signals)
}

/// Takes Ctrl-C over.
#[cfg(not(unix))]
pub(crate) fn listen() -> std::io::Result<Signals> {
    let signals = Signals::default();
    let (first, over) = (signals.first.clone(), signals.over.clone());
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if over.is_cancelled() {
                return;
            }
            if first.is_cancelled() {
                crate::exit::at_once(130);
            }
            first.cancel();
        }
    });
    Ok(signals)
}
