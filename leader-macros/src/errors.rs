//! Every problem of one item, gathered before any is reported.

use std::cell::RefCell;
use std::fmt::Display;
use std::thread;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The problems found so far. [`Errors::check`] must be called: one that is dropped unread would be lost in silence.
pub(crate) struct Errors {
    found: RefCell<Option<Vec<syn::Error>>>,
}

impl Errors {
    pub(crate) fn new() -> Self {
        Self {
            found: RefCell::new(Some(Vec::new())),
        }
    }

    /// Adds a problem that stands at `tokens`, from the first to the last of them.
    pub(crate) fn at(&self, tokens: impl ToTokens, message: impl Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    pub(crate) fn add(&self, error: syn::Error) {
        self.found
            .borrow_mut()
            .as_mut()
            .expect("an accumulator is checked once")
            .push(error);
    }

    /// Gives the problems as `compile_error!`s, or nothing if there are none.
    pub(crate) fn check(self) -> Result<(), TokenStream> {
        let found = self.found.take().unwrap_or_default();
        if found.is_empty() {
            return Ok(());
        }
        Err(found.iter().map(syn::Error::to_compile_error).collect())
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert!(
                self.found.borrow().is_none(),
                "problems were gathered and never checked"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn all_problems_are_given_in_order() {
        let errors = Errors::new();
        errors.at(quote!(a), "the first");
        errors.at(quote!(b), "the second");
        let given = errors.check().unwrap_err().to_string();
        assert_eq!(given.matches("compile_error").count(), 2);
        assert!(given.find("the first") < given.find("the second"));
    }

    #[test]
    fn no_problem_is_no_token() {
        assert!(Errors::new().check().is_ok());
    }

    #[test]
    #[should_panic(expected = "never checked")]
    fn problems_cannot_be_forgotten() {
        Errors::new().at(quote!(a), "lost");
    }
}
