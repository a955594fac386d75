//! Names of works and namespaces: what the columns can hold, and nothing else.

use std::fmt;
use std::sync::Arc;

/// The name of a work: its identity in the database, in logs and in metrics.
///
/// One to [`WorkName::MAX_BYTES`] bytes, compared byte by byte, without control characters and without blanks at
/// either end. The attribute macro refuses the same names while compiling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkName(Arc<str>);

impl WorkName {
    /// The longest name, in bytes. A character may take up to four.
    pub const MAX_BYTES: usize = 191;

    /// Parses a name.
    ///
    /// # Errors
    ///
    /// [`NameError`] says which rule the text breaks.
    ///
    /// ```
    /// use leader::{NameError, WorkName};
    ///
    /// assert_eq!(WorkName::new("outbox_relay").unwrap().as_str(), "outbox_relay");
    /// assert_eq!(WorkName::new(" outbox"), Err(NameError::Padded));
    /// ```
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        check(text, Self::MAX_BYTES)?;
        Ok(Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WorkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for WorkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for WorkName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl std::borrow::Borrow<str> for WorkName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// The deployment that replicas and names belong to, so that several can share one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace(Arc<str>);

impl Namespace {
    pub(crate) const MAX_BYTES: usize = 64;

    pub(crate) fn new(text: &str) -> Result<Self, NameError> {
        check(text, Self::MAX_BYTES)?;
        Ok(Self(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is not a [`WorkName`] or a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// No character at all.
    #[error("a name cannot be empty")]
    Empty,
    /// Nothing but blanks.
    #[error("a name cannot be blank")]
    Blank,
    /// A blank at the beginning or the end.
    #[error("a name cannot begin or end with a blank")]
    Padded,
    /// A control character, NUL among them.
    #[error("a name cannot contain a control character")]
    Control,
    /// More bytes than the column holds.
    #[error("a name has at most {max} bytes, and this one has {bytes}")]
    TooLong {
        /// The length of the text in bytes.
        bytes: usize,
        /// The longest text allowed in bytes.
        max: usize,
    },
}

/// The rule that the compiler (`leader-macros`), the start and the columns share.
fn check(text: &str, max: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.chars().all(char::is_whitespace) {
        return Err(NameError::Blank);
    }
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return Err(NameError::Padded);
    }
    if text.chars().any(char::is_control) {
        return Err(NameError::Control);
    }
    if text.len() > max {
        return Err(NameError::TooLong { bytes: text.len(), max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same table as in `leader-macros/src/name.rs`, at the start and on every store.
    #[test]
    fn the_column_decides_what_a_name_is() {
        for (text, times, expected) in include!("name/cases.rs") {
            let text = text.repeat(times);
            let verdict = match WorkName::new(&text) {
                Ok(name) => {
                    assert_eq!(name.as_str(), text);
                    "good"
                }
                Err(NameError::Empty) => "empty",
                Err(NameError::Blank) => "blank",
                Err(NameError::Padded) => "padded",
                Err(NameError::Control) => "control",
                Err(NameError::TooLong { bytes, max: 191 }) if bytes == text.len() => "too long",
                Err(NameError::TooLong { .. }) => "too long by another measure",
            };
            assert_eq!(verdict, expected, "{text:?}");
        }
    }

    #[test]
    fn a_namespace_has_at_most_64_bytes() {
        assert!(Namespace::new(&"n".repeat(64)).is_ok());
        assert!(Namespace::new(&"ü".repeat(32)).is_ok());
        for text in ["n".repeat(65), "ü".repeat(33)] {
            let refused = Namespace::new(&text);
            assert_eq!(refused, Err(NameError::TooLong { bytes: text.len(), max: 64 }), "{text}");
        }
    }
}
