//! Random faults against replicas as processes on real databases, and a checker of what they did.
//!
//! A seed makes [`conditions`] and a [`schedule`]; [`run_all`] applies it to three replicas and writes a [`history`] of what
//! happened; the [`checker`] finds in it what the promises rule out. Conditions, schedule and checker are pure.

pub mod checker;
pub mod conditions;
pub mod history;
pub mod schedule;

mod faults;
mod link;
mod observer;
mod operator;
mod post;
mod pulse;
mod report;
mod route;
mod run;
mod untested;

pub use conditions::{Asked, Conditions, Route};
pub use report::{Report, reports_as_json};
pub use run::{Options, run_all};
