//! Ending the process without waiting for anybody.

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
