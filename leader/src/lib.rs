//! An annotated async function runs on exactly one replica.

#[doc(hidden)]
pub mod __private;
mod name;
mod state;
mod tenure;
mod work;

pub use leader_macros::work;
pub use name::{NameError, WorkName};
pub use state::State;
pub use tenure::Tenure;
