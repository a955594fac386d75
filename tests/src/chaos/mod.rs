//! Random faults against replicas as processes on real databases, and a checker of what they did.
//!
//! A seed makes a [`schedule`]; [`run_all`] applies it to three replicas and writes a [`history`] of what happened; the
//! [`checker`] finds in it what the promises rule out. Schedule and checker are pure.

pub mod checker;
pub mod history;
pub mod schedule;

mod faults;
mod link;
mod observer;
mod operator;
mod post;
mod pulse;
mod report;
mod run;
mod untested;

pub use report::{Report, reports_as_json};
pub use run::{Options, run_all};
