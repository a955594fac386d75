//! What `leader` costs and how fast the work moves, measured on real databases with durable settings.
//!
//! Each figure is a module with its options, its measurement and a result that prints itself. The program
//! `leader-benches` runs them; `benches/peers` measures others by the same means.

pub mod all;
pub mod figures;
pub mod floor;
pub mod place;
#[cfg(feature = "plots")]
pub mod plot;
#[cfg(feature = "plots")]
pub mod plots;
pub mod process;
pub mod record;
pub mod replicas;
pub mod report;
pub mod statements;
pub mod stats;
pub mod wire;
