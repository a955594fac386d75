//! What the attribute macro names in its expansion. Not for people: nothing here keeps its form between versions.

use std::future::Future;

pub use crate::Tenure;
pub use crate::state::{FromStates, Need, States};
pub use crate::work::{FromTenure, OnEnd, Outcome, Registration, WORKS, Work};
pub use linkme;

/// A type that the compiler infers from the annotated function, so that the expansion need not repeat the user's words.
pub type Inferred<T> = T;

/// An argument of type `S`, before there is a value.
#[derive(Debug)]
pub struct Slot<S> {
    /// The state that the argument asks for.
    pub need: fn() -> Need,
    /// Stands for the argument in a call that is compiled and never made.
    pub never: fn() -> S,
}

/// The slot of an argument that is filled from the states.
pub const fn slot<S: FromStates>() -> Slot<S> {
    Slot {
        need: S::need,
        never: || unreachable!("only the types of this call matter"),
    }
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
pub fn work<F, R>(future: F) -> Work
where
    F: Future<Output = R> + Send + 'static,
    R: Outcome,
{
    Work::new(future)
}
