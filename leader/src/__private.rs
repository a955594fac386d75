//! What the attribute macro names in its expansion. Not for people: nothing here keeps its form between versions.

pub use crate::__registration as registration;
pub use crate::Tenure;
pub use crate::state::{FromStates, Need, Shared, States};
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
    Slot { need: S::need, never: || unreachable!("only the types of this call matter") }
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

/// The item beside an annotated function: an element of the slice, with these `fields` of a [`Registration`].
///
/// It is a macro so that a path that does not lead here is one error. It wraps the element in a structure, one item with
/// a name, for two mistakes that the attribute cannot see:
///
/// - A second attribute on the same function, behind an alias or a `cfg_attr`, defines the structure twice. The compiler
///   says so, with its name.
/// - On an associated function the compiler refuses the structure, which must not register a free function of that name.
#[doc(hidden)]
#[macro_export]
macro_rules! __registration {
    ($(#[$attribute:meta])* $item:ident $private:ident { $($fields:tt)* }) => {
        #[doc(hidden)]
        $(#[$attribute])*
        struct $item([(); {
            use $crate::__private as $private;
            #[$private::linkme::distributed_slice($private::WORKS)]
            #[linkme(crate = $private::linkme)]
            static $item: $private::Registration = $private::Registration { $($fields)* };
            1
        }]);
    };
}
