//! An explicit-state model of the protocol: every state that a few replicas and one name can reach is looked at, and in
//! each of them what `docs/design.md` promises must hold. Then one rule is broken at a time, and the model must find out.
//!
//! Other than the simulation of the engine, it takes the statements apart: the snapshot that one starts with, the lock of
//! the row that it reads again, and its commit are steps of their own, and anything can happen between two of them:
//!
//! - A statement that its replica has given up goes on, or is lost, or is rolled back.
//! - A replica freezes, thaws or crashes, with a statement on the wire and a fenced transaction open. The server ends such a
//!   transaction whenever it likes.
//! - An expiry passes, which is what a database's clock comes down to here. The replica has marked its loss by then and its work is
//!   gone, unless it is frozen: that is what the deadline, the grace, the margin and the watchdog are for. Whether their
//!   arithmetic is right is not asked here.
//! - A scan reads a clock that went on since its snapshot, and takes renewed sessions for expired.
//!
//! Where the engine waits or chooses, the model does anything at any time: campaign and release pauses, quiet, hints. It
//! takes as given that a keeper has one statement on the wire (I5). It leaves out operators and failovers, `fence` in a transaction
//! that the user began, and more than one name. How often something happens is bounded, by a `Bound` for each exploration.

mod answers;
mod database;
mod explore;
mod mutants;
mod protocol;
mod replica;
mod rules;
mod state;
mod steps;
mod symmetry;
