//! What the attribute macro names in its expansion. Not for people: nothing here keeps its form between versions.

use std::future::Future;

pub use crate::Tenure;
pub use crate::state::{FromStates, Need, States};
pub use crate::work::{FromTenure, OnEnd, Outcome, Registration, WORKS, Work};
pub use linkme;

/// The state that an argument of type `S` asks for.
pub fn need<S: FromStates>() -> Need {
    S::need()
}

/// Fills an argument of type `S`.
pub fn state<S: FromStates>(states: &States) -> S {
    S::from_states(states)
}

/// Fills the first argument.
pub fn tenure<T: FromTenure>(tenure: Tenure) -> T {
    T::from_tenure(tenure)
}

/// Boxes what the function returned.
pub fn work<F>(future: F) -> Work
where
    F: Future + Send + 'static,
    F::Output: Outcome,
{
    Work::new(future)
}
