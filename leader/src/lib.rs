//! An annotated async function runs on exactly one replica, elected through the database you already have.

// What one feature leaves unused another one uses; the build with all of them is held to these lints.
#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite", feature = "test-util")),
    allow(
        clippy::needless_pass_by_value,
        dead_code,
        irrefutable_let_patterns,
        unreachable_pub,
        unused_imports,
        unused_variables
    )
)]

#[doc(hidden)]
pub mod __private;
mod clock;
mod database;
mod elector;
mod error;
mod event;
mod exit;
mod keeper;
mod name;
mod protocol;
mod random;
mod registry;
mod run;
mod running;
mod shutdown;
mod state;
mod status;
mod store;
mod tenure;
#[cfg(any(test, feature = "test-util"))]
pub mod test_util;
mod timings;
mod transaction;
mod watchdog;
mod work;

pub use database::Database;
pub use elector::{Builder, Elector};
pub use error::Error;
pub use event::{Event, EventKind};
pub use leader_macros::work;
pub use name::{NameError, WorkName};
pub use protocol::Term;
pub use registry::{Fault, Place};
pub use running::Running;
pub use state::State;
pub use status::{Role, Status, WorkStatus};
pub use tenure::{Ended, Ending, Failed, Tenure};
pub use timings::{Timings, TimingsError};
pub use transaction::{Fenced, Transaction, TransactionError};
pub use watchdog::{EXIT_STATUS, Overrun};
