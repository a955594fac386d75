//! What a registration is: the element the attribute macro emits, and the slice the linker gathers them in.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;

use crate::Tenure;
use crate::state::{Need, States};

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// Every work of the program that was registered with the attribute, in the order the linker chose.
///
/// The linker gathers elements by the slice's name alone, in whatever crate they are. So it carries the crate and the
/// version: an incompatible version of `leader` in the same program, whose elements have another layout, has a slice of
/// its own, and so has an application that calls one `WORKS`. Slices of one name, as of one version from two sources,
/// are never mixed: `linkme` panics at the first look at one of them.
#[linkme::distributed_slice]
pub static LEADER_WORKS_0_1: [Registration];
pub use LEADER_WORKS_0_1 as WORKS;

/// One registered work.
#[derive(Clone, Copy)]
pub struct Registration {
    /// Its name as written.
    pub name: &'static str,
    /// The module the function is in.
    pub module: &'static str,
    /// The file of the attribute.
    pub file: &'static str,
    /// The line of the attribute.
    pub line: u32,
    /// The states it takes, in the order of its arguments.
    pub states: &'static [fn() -> Need],
    /// What becomes of its future when the tenure ends.
    pub on_end: OnEnd,
    /// Calls the function.
    pub start: fn(Tenure, &States) -> Work,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("name", &self.name)
            .field("module", &self.module)
            .field("file", &self.file)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// What becomes of a work's future when its tenure ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEnd {
    /// It is told, and returns by itself.
    Return,
    /// It is dropped at once.
    Drop,
}

/// A work that was called and not yet polled.
pub struct Work(pub(crate) Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>);

impl Work {
    /// Boxes the future that the annotated function returned.
    pub fn new<F>(future: F) -> Self
    where
        F: Future + Send + 'static,
        F::Output: Outcome,
    {
        Self(Box::pin(async { future.await.into_result() }))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

/// What a work may return.
#[diagnostic::on_unimplemented(
    message = "a work cannot return `{Self}`",
    label = "neither `()` nor a `Result<(), E>` with a suitable `E`",
    note = "return nothing, or `Result<(), E>` with an `E` that converts into `Box<dyn Error + Send + Sync>`",
    note = "an error of your own implements `Error` and is `Send + Sync`; instead of `Box<dyn Error>` write `Box<dyn Error + Send + Sync>`"
)]
pub trait Outcome {
    /// The one form the elector reads.
    fn into_result(self) -> Result<(), BoxError>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

// The message of `Outcome` instead of three about `Box<dyn Error>`, none of which names the return type.
#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> Outcome for Result<Infallible, E> {
    fn into_result(self) -> Result<(), BoxError> {
        match self {
            Ok(never) => match never {},
            Err(error) => Err(error.into()),
        }
    }
}

/// The first argument of a work.
#[diagnostic::on_unimplemented(
    message = "the first argument of a work is its tenure, not `{Self}`",
    label = "not a `leader::Tenure`",
    note = "write `tenure: leader::Tenure`"
)]
pub trait FromTenure {
    /// The tenure itself.
    fn from_tenure(tenure: Tenure) -> Self;
}

impl FromTenure for Tenure {
    fn from_tenure(tenure: Tenure) -> Self {
        tenure
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_slice_carries_the_version() {
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let version = if major == "0" { format!("0_{minor}") } else { major.to_owned() };
        assert!(
            include_str!("work.rs").contains(&format!("pub static LEADER_WORKS_{version}: ")),
            "rename the slice: this version is not compatible with the last"
        );
    }
}
