//! What the name of a work may be: the rule of `leader::WorkName`, told while compiling.

use syn::LitStr;

use crate::errors::Errors;

/// What fits into the column, as in `leader::WorkName::MAX_BYTES`.
const MAX_BYTES: usize = 191;

/// A literal that holds a good name.
pub(crate) struct Name(LitStr);

impl Name {
    pub(crate) fn new(literal: LitStr, errors: &Errors) -> Option<Self> {
        if !literal.suffix().is_empty() {
            errors.at(
                &literal,
                format_args!(
                    "the name has the suffix `{}`: leave it out",
                    literal.suffix()
                ),
            );
            return None;
        }
        match check(&literal.value()) {
            Ok(()) => Some(Self(literal)),
            Err(fault) => {
                errors.at(&literal, fault);
                None
            }
        }
    }

    pub(crate) fn literal(&self) -> &LitStr {
        &self.0
    }
}

/// The same checks in the same order as in `leader/src/name.rs`; the tests of both read the same table.
fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("the name is empty: write the one that this work keeps in the database, in logs and in metrics".into());
    }
    if text.chars().all(char::is_whitespace) {
        return Err("the name is blank: write the one that this work keeps in the database, in logs and in metrics".into());
    }
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return Err(format!(
            "the name begins or ends with a blank: write `{:?}`",
            text.trim()
        ));
    }
    if let Some(control) = text.chars().find(|character| character.is_control()) {
        return Err(format!(
            "the name contains the control character `{}`: leave it out",
            control.escape_default()
        ));
    }
    if text.len() > MAX_BYTES {
        return Err(format!(
            "the name has {} bytes, and at most {MAX_BYTES} fit: write a shorter one",
            text.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_decides_what_a_name_is() {
        let long = |bytes: usize| "n".repeat(bytes);
        let wide = |characters: usize| "\u{1f980}".repeat(characters);
        for good in [
            "a".into(),
            "event consumer".into(),
            "Job".into(),
            "größe/ä".into(),
            long(190),
            long(191),
            wide(47),
        ] {
            assert_eq!(check(&good), Ok(()), "{good:?}");
        }
        for (bad, why) in [
            (String::new(), "is empty"),
            (" \t".into(), "is blank"),
            ("\u{3000}".into(), "is blank"),
            (" a".into(), "begins or ends with a blank: write `\"a\"`"),
            ("a\n".into(), "begins or ends with a blank: write `\"a\"`"),
            ("a\0b".into(), "control character `\\u{0}`"),
            ("a\u{7f}b".into(), "control character `\\u{7f}`"),
            (long(192), "has 192 bytes, and at most 191 fit"),
            (wide(48), "has 192 bytes, and at most 191 fit"),
        ] {
            let said = check(&bad).expect_err(&bad);
            assert!(said.contains(why), "{bad:?}: {said}");
        }
    }
}
