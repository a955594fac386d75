//! What the integration tests of `leader` stand on: real database servers, databases and replicas as processes.

pub mod chaos;
pub mod conformance;
pub mod harness;
