//! What standbys are told: hints, which say when to send a statement and never decide what it does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Campaign;
use crate::clock::Moment;
use crate::name::WorkName;
use crate::protocol::messages::{Request, Standing};
use crate::protocol::{Hint, SessionId};

/// The least time between two looks that nothing but hints ask for, and after a claim on an announcement that won nothing.
const HINT_PAUSE: Duration = Duration::from_millis(10);

/// Names that somebody said he gave back, and that are campaigned for here.
pub(super) struct Announced {
    names: BTreeSet<WorkName>,
    due: Moment,
}

impl Announced {
    pub(super) fn none(now: Moment) -> Self {
        Self { names: BTreeSet::new(), due: now }
    }

    /// When they may be claimed.
    pub(super) fn due(&self) -> Option<Moment> {
        (!self.names.is_empty()).then_some(self.due)
    }

    /// A claim won something: it is not in vain that others are sent.
    pub(super) fn proved(&mut self, now: Moment) {
        self.due = self.due.min(now);
    }

    pub(super) fn clear(&mut self) {
        self.names.clear();
    }
}

impl Campaign {
    /// A hint that names may be free.
    pub(crate) fn hint(&mut self, hint: Hint, now: Moment) {
        match hint {
            Hint::Freed(names) => {
                let wanted = names.into_iter().filter(|name| is_wanted(&self.names, name, now));
                self.announced.names.extend(wanted);
            }
            Hint::Look => {
                let due = now.max(self.scanned + HINT_PAUSE);
                self.scan_due = self.scan_due.min(due);
            }
        }
    }

    /// What was given back is claimed without a look before: whether nobody holds it is for the claim to find out (I1).
    pub(super) fn announced_claim(&mut self, id: SessionId, now: Moment) -> Option<Request> {
        if self.announced.due()? > now {
            return None;
        }
        self.announced.due = now + HINT_PAUSE;
        self.claimed_from.clear();
        let mut names: Vec<WorkName> = std::mem::take(&mut self.announced.names).into_iter().collect();
        names.retain(|name| is_wanted(&self.names, name, now));
        (!names.is_empty()).then_some(Request::Claim { id, names, gone: Vec::new() })
    }
}

/// Whether a replica with these standings campaigns for a name at `now`.
pub(super) fn is_wanted(names: &BTreeMap<WorkName, Standing>, name: &WorkName, now: Moment) -> bool {
    matches!(names.get(name), Some(Standing::Standby { from }) if *from <= now)
}
