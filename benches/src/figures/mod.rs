//! The figures, one a file.

pub mod build;
pub mod cost;
pub mod crash;
pub mod fence;
pub mod handover;
pub mod names;
