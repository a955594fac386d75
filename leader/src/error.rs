//! What can go wrong with an elector.
//!
//! `Display` says what failed and what to do about it; the cause is the `source`. `Debug` prints both, since it is what
//! a `main` that returns the error shows.

use std::error::Error as StdError;
use std::fmt;

use crate::fault::{Fault, Listed};
use crate::name::WorkName;
use crate::timings::TimingsError;
use crate::work::BoxError;

/// An elector that could not start, could not go on, or could not stop in time.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Registrations that cannot be honoured, all of them.
    #[error("{}", Listed(.0))]
    Registration(Vec<Fault>),
    /// Durations that cannot keep the promise.
    #[error(transparent)]
    Timings(#[from] TimingsError),
    /// What the builder was told cannot be used: no database, a URL without a scheme or with one that cannot carry leases or whose
    /// feature is off, or a namespace that is no name.
    #[error("{0}")]
    Config(String),
    /// The system refused what an elector needs: a thread, or to listen for signals.
    #[error("{doing} failed; see what the system refuses to this process")]
    #[non_exhaustive]
    System {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A variable of the environment that is missing or not text.
    #[error("an environment variable cannot be read; set it")]
    Environment(#[from] std::env::VarError),
    /// A statement of the application on its own connection.
    #[error("a statement of the application failed")]
    Sqlx(#[from] sqlx::Error),
    /// The database's URL cannot be read, or the database could not be reached, or refused what a lease needs.
    #[error("{doing} failed")]
    #[non_exhaustive]
    Database {
        /// What was tried.
        doing: String,
        /// What the database said.
        source: BoxError,
    },
    /// The database gave no answer within one attempt.
    #[error("{doing} got no answer within {within:?}; check that the database can be reached from here")]
    #[non_exhaustive]
    NoAnswer {
        /// What was tried.
        doing: String,
        /// The length of an attempt.
        within: std::time::Duration,
    },
    /// Works were still running when the time for the shutdown was over.
    #[error("still running after {within:?} of shutdown: {}", Names(.works))]
    #[non_exhaustive]
    Shutdown {
        /// The works that did not return.
        works: Vec<WorkName>,
        /// [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout).
        within: std::time::Duration,
    },
    /// No such name is registered here, or this replica does not lead it.
    #[error("this replica does not lead `{0}`; ask the one that does, see `leader::status`")]
    NotLeading(String),
    /// The elector is gone: it was shut down, its runtime is gone, or its thread panicked.
    #[error("the elector has stopped; start another, or end the process")]
    Stopped,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self))
    }
}

struct Names<'n>(&'n [WorkName]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}`{name}`")?;
        }
        Ok(())
    }
}

/// An error with everything that caused it.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        add_cause(&mut text, &error.to_string());
        source = error.source();
    }
    text
}

/// Some errors say what caused them themselves, sqlx's among them.
pub(crate) fn add_cause(text: &mut String, cause: &str) {
    if !text.contains(cause) {
        text.push_str(": ");
        text.push_str(cause);
    }
}
