//! What the application hands to its works.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;

/// A value of the application that a work asks for in its signature.
///
/// Give it to the elector with [`Builder::state`](crate::Builder::state); each tenure gets a clone. A work whose state
/// was not given fails the start, with the type and the place of the work.
///
/// ```
/// use leader::{State, Tenure};
///
/// #[derive(Clone)]
/// struct App { greeting: &'static str }
///
/// #[leader::work("greeter")]
/// async fn greeter(tenure: Tenure, State(app): State<App>) {
///     println!("{} from term {}", app.greeting, tenure.term());
///     tenure.ended().await;
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

/// Every value given to the builder, by type.
#[derive(Default)]
pub struct States(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(value));
    }

    pub(crate) fn has(&self, need: &Need) -> bool {
        self.0.contains_key(&need.id)
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "States({})", self.0.len())
    }
}

/// A state that a work asks for.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    id: TypeId,
    pub(crate) type_name: &'static str,
}

/// An argument that the elector can fill from its states.
#[diagnostic::on_unimplemented(
    message = "a work cannot take an argument of type `{Self}`",
    label = "not a `leader::State<_>`",
    note = "after the tenure a work takes nothing but states: write `State(value): State<YourType>` and give the value to `Elector::builder().state(value)`",
    note = "the state must be `Clone + Send + Sync + 'static`"
)]
pub trait FromStates: Sized {
    /// The state this argument is filled from.
    fn need() -> Need;
    /// Takes a clone of it.
    fn from_states(states: &States) -> Self;
}

impl<T: Clone + Shared + 'static> FromStates for State<T> {
    fn need() -> Need {
        Need { id: TypeId::of::<T>(), type_name: type_name::<T>() }
    }

    fn from_states(states: &States) -> Self {
        let value = states.0.get(&TypeId::of::<T>()).and_then(|state| state.downcast_ref::<T>());
        // The registry has refused to start works whose states are missing.
        Self(value.expect("every needed state was checked at start").clone())
    }
}

/// What several threads may hold at once: each replica's elector, and whatever its works spawn.
#[diagnostic::on_unimplemented(
    message = "a state cannot be `{Self}`, which threads cannot share",
    label = "not `Send + Sync`",
    note = "write a type that threads can share: `Arc` instead of `Rc`, `Mutex` or an atomic instead of `Cell`"
)]
pub trait Shared: Send + Sync {}

// One message for both bounds.
#[diagnostic::do_not_recommend]
impl<T: Send + Sync> Shared for T {}
