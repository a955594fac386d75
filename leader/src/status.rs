//! What a replica leads.

use std::sync::Arc;
use std::time::SystemTime;

use crate::name::WorkName;
use crate::protocol::Term;

/// What a replica leads, as its elector sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The replica.
    pub instance: Arc<str>,
    /// The namespace of its names.
    pub namespace: Arc<str>,
    /// The id of its session, if it has one.
    pub session: Option<String>,
    /// When its session was last renewed.
    pub last_renewal: Option<SystemTime>,
    /// Every work that this replica campaigns for, sorted by name.
    pub works: Vec<WorkStatus>,
}

impl Status {
    /// The names that this replica leads.
    pub fn leading(&self) -> impl Iterator<Item = &WorkName> {
        self.works
            .iter()
            .filter(|work| matches!(work.role, Role::Leading { .. }))
            .map(|work| &work.name)
    }
}

/// Where a replica stands with one work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkStatus {
    /// The name of the work.
    pub name: WorkName,
    /// Where this replica stands with it.
    pub role: Role,
}

/// Where a replica stands with one work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It campaigns, or waits until it campaigns again.
    Standby,
    /// Its work runs.
    #[non_exhaustive]
    Leading {
        /// The term of the tenure.
        term: Term,
        /// When it was elected.
        since: SystemTime,
        /// The trace id of the tenure.
        trace_id: Arc<str>,
    },
    /// The tenure is over, and its work still runs or the name is still to be given back.
    #[non_exhaustive]
    Ending {
        /// The term of the tenure.
        term: Term,
    },
}
