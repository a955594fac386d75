//! What the programs do beside their subject.

use std::io::IsTerminal;
use std::num::ParseFloatError;

use leader::Timings;
use tracing_subscriber::EnvFilter;

/// Logs to stderr what `RUST_LOG` asks for.
pub(crate) fn log() {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// The default timings, or the same proportions for a lease of this many seconds.
pub(crate) fn timings(lease: &str) -> Result<Timings, ParseFloatError> {
    let default = Timings::default();
    let scale = lease.parse::<f64>()? / default.lease.as_secs_f64();
    Ok(Timings {
        lease: default.lease.mul_f64(scale),
        renew: default.renew.mul_f64(scale),
        deadline: default.deadline.mul_f64(scale),
        attempt: None,
        grace: default.grace.mul_f64(scale),
        margin: default.margin.mul_f64(scale),
        campaign: default.campaign.mul_f64(scale),
        release: default.release.mul_f64(scale),
        look: default.look,
    })
}
