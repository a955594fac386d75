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
            errors.at(&literal, format_args!("the name has the suffix `{}`: leave it out", literal.suffix()));
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

/// The same checks in the same order as in `leader/src/name.rs`; the tests of both read `leader/src/name/cases.rs`.
fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(
            "the name is empty: write the one that this work keeps in the database, in logs and in metrics"
                .into(),
        );
    }
    if text.chars().all(char::is_whitespace) {
        return Err(
            "the name is blank: write the one that this work keeps in the database, in logs and in metrics"
                .into(),
        );
    }
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return Err(format!("the name begins or ends with a blank: write `{:?}`", text.trim()));
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
        for (text, times, verdict) in include!("../../leader/src/name/cases.rs") {
            let text = text.repeat(times);
            let said = match verdict {
                "good" => {
                    assert_eq!(check(&text), Ok(()), "{text:?}");
                    continue;
                }
                "empty" => "the name is empty: write the one".to_owned(),
                "blank" => "the name is blank: write the one".to_owned(),
                "padded" => format!("the name begins or ends with a blank: write `{:?}`", text.trim()),
                "control" => "the name contains the control character `".to_owned(),
                "too long" => format!("the name has {} bytes, and at most 191 fit: write a", text.len()),
                other => panic!("a verdict that no name gets: {other}"),
            };
            let error = check(&text).expect_err(&text);
            assert!(error.starts_with(&said), "{text:?}: {error}");
        }
    }
}
