//! Ending the process without waiting for anybody.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The longest that last words are waited for.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(100);

/// Says something that goes to pipes and locks which may be blocked, and does not wait for it any longer than this.
pub(crate) fn say(words: impl FnOnce() + Send + 'static, within: Duration) {
    let (done, said) = mpsc::channel();
    let say = move || {
        words();
        let _ = done.send(());
    };
    if thread::Builder::new().name("leader-says".to_owned()).spawn(say).is_ok() {
        let _ = said.recv_timeout(within);
    }
}

/// Ends the process at once: no destructors, no `atexit` handlers, no locks taken.
#[cfg(unix)]
pub(crate) fn at_once(status: i32) -> ! {
    signal_hook::low_level::exit(status)
}

/// Ends the process as fast as the platform lets safe code do it.
#[cfg(not(unix))]
pub(crate) fn at_once(status: i32) -> ! {
    std::process::exit(status)
}
