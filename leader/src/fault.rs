//! What is wrong with a registration, and where.

use std::fmt;
use std::panic::Location;

use crate::name::NameError;

/// Where a work was registered, or a method of the builder called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Place {
    /// The source file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// The module of an annotated function, which begins with its crate.
    pub module: Option<&'static str>,
}

impl From<&'static Location<'static>> for Place {
    fn from(location: &'static Location<'static>) -> Self {
        Self { file: location.file(), line: location.line(), module: None }
    }
}

// The module tells files of different crates apart: depending on the build all of them are `src/lib.rs`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        self.module.map_or(Ok(()), |module| write!(f, " in `{module}`"))
    }
}

/// A registration that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Several works under one name.
    Duplicate {
        /// The name.
        name: String,
        /// Every place that registers it.
        places: Vec<Place>,
    },
    /// A work whose name the column cannot hold.
    Name {
        /// The text given as a name.
        name: String,
        /// The rule it breaks.
        why: NameError,
        /// Where.
        place: Place,
    },
    /// A work asks for a state that the builder was not given.
    MissingState {
        /// The name of the work.
        name: String,
        /// The type in `State<…>`.
        type_name: &'static str,
        /// Where.
        place: Place,
    },
    /// The builder speaks of a name that no work can have.
    NotAName {
        /// The text given as a name.
        name: String,
        /// The rule it breaks.
        why: NameError,
        /// The builder's method: `expect`, `only` or `except`.
        asked_by: &'static str,
        /// Every call of it with this name.
        places: Vec<Place>,
    },
    /// A name that the builder speaks of is not registered.
    NotRegistered {
        /// The name.
        name: String,
        /// The builder's method: `expect`, `only` or `except`.
        asked_by: &'static str,
        /// Every call of it with this name.
        places: Vec<Place>,
    },
    /// A registered name that `expect` does not list.
    NotExpected {
        /// The name.
        name: String,
        /// Where.
        place: Place,
    },
}

impl Fault {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Duplicate { name, .. }
            | Self::Name { name, .. }
            | Self::MissingState { name, .. }
            | Self::NotAName { name, .. }
            | Self::NotRegistered { name, .. }
            | Self::NotExpected { name, .. } => name,
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { name, places } => {
                let times = places.len();
                write!(
                    f,
                    "the work `{name}` is registered {times} times: {}; rename all but one",
                    Joined(places)
                )
            }
            Self::Name { name, why, place } => {
                write!(f, "the name {name:?} of the work at {place} cannot be used: {why}")
            }
            Self::MissingState { name, type_name, place } => write!(
                f,
                "the work `{name}` at {place} takes `State<{type_name}>`; give it with `.state(…)` on the builder"
            ),
            Self::NotAName { name, why, asked_by, places } => {
                write!(f, "the name {name:?} in `{asked_by}` at {} cannot be used: {why}", Joined(places))
            }
            Self::NotRegistered { name, asked_by, places } => {
                write!(
                    f,
                    "`{asked_by}` at {} names the work `{name}`, which is not registered",
                    Joined(places)
                )
            }
            Self::NotExpected { name, place } => {
                write!(
                    f,
                    "the work `{name}` at {place} is registered and `expect` does not name it; add it there, or leave the work out"
                )
            }
        }
    }

    /// What may be behind it, where the fault itself cannot say.
    fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::NotRegistered { .. }).then_some(
            "if that is a surprise: the linker drops a crate that nobody names, and `use that_crate as _;` keeps it",
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f)?;
        self.hint().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// Faults, one a line, and their hint once: a crate that was dropped is missed under each of its names.
pub(crate) struct Listed<'f>(pub(crate) &'f [Fault]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [fault] = self.0 {
            return fault.fmt(f);
        }
        write!(f, "{} faults in the registered works:", self.0.len())?;
        for fault in self.0 {
            f.write_str("\n  ")?;
            fault.describe(f)?;
        }
        self.0.iter().find_map(Fault::hint).map_or(Ok(()), |hint| write!(f, "\n{hint}"))
    }
}

struct Joined<'p>(&'p [Place]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, place) in self.0.iter().enumerate() {
            write!(f, "{}{place}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
