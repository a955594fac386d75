//! Names that nobody alive holds and that cannot be claimed all the same: a fenced transaction under the last term is
//! still open, and locks the row (I3). Its process is frozen, or gone without the server having noticed (I8).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Campaign;
use crate::clock::Moment;
use crate::name::WorkName;
use crate::protocol::messages::{Effect, Request, Standing};
use crate::protocol::{Hold, Holder, Scan, SessionId};

/// A name that could not be claimed although its last holder is gone.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    /// The first claim that did not win it.
    since: Moment,
    /// The session that it pointed to, and still does.
    holder: SessionId,
    /// It was looked at since: a claim of another standby that was in the way is over.
    seen: bool,
    /// A second claim did not win it either.
    fenced: bool,
    /// When the database is asked to end the transaction.
    end_due: Moment,
}

/// A name that is kept from being claimed by a transaction of its last holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fenced {
    pub(crate) holder: SessionId,
    /// The replica, if it is known here.
    pub(crate) instance: Option<Arc<str>>,
    pub(crate) since: Moment,
}

impl Campaign {
    /// What keeps a name from being claimed, if something does.
    pub(crate) fn fenced(&self, name: &WorkName) -> Option<Fenced> {
        let Refused { holder, since, .. } = *self.refused.get(name).filter(|refused| refused.fenced)?;
        Some(Fenced { holder, instance: self.former.get(&holder).cloned(), since })
    }

    /// A claim was answered. What nobody had held, no transaction can fence.
    pub(super) fn note_refused(&mut self, won: &[Hold], now: Moment) {
        let won: BTreeSet<&WorkName> = won.iter().map(|(name, _)| name).collect();
        self.refused.retain(|name, _| !won.contains(name));
        let end_due = now + self.end_after();
        for (name, holder) in std::mem::take(&mut self.claimed_from) {
            if won.contains(&name) {
                continue;
            }
            let first = Refused { since: now, holder, seen: false, fenced: false, end_due };
            let refused = self.refused.entry(name.clone()).or_insert(first);
            if refused.seen && !refused.fenced {
                refused.fenced = true;
                self.effects.extend(self.fenced(&name).map(|fenced| Effect::Fenced { name, fenced }));
            }
        }
    }

    /// A look at the tables: a name that is still where the refused claim left it was not taken by somebody else.
    pub(super) fn note_seen(&mut self, scan: &Scan) {
        let gone: BTreeMap<&WorkName, SessionId> = scan
            .vacancies
            .iter()
            .filter_map(|vacancy| match vacancy.holder {
                Some(Holder::Gone(id)) => Some((&vacancy.name, id)),
                _ => None,
            })
            .collect();
        let mut over = Vec::new();
        self.refused.retain(|name, refused| {
            let stays = gone.get(name) == Some(&refused.holder);
            refused.seen = true;
            if !stays && refused.fenced {
                over.push(name.clone());
            }
            stays
        });
        self.effects.extend(over.into_iter().map(|name| Effect::NotFenced { name }));

        self.former.extend(scan.expired.iter().map(|(id, instance)| (*id, instance.as_str().into())));
        let expired: BTreeSet<SessionId> = scan.expired.iter().map(|(id, _)| *id).collect();
        let pointed_to: BTreeSet<SessionId> = gone.into_values().collect();
        self.former.retain(|id, _| expired.contains(id) || pointed_to.contains(id));
    }

    /// The transactions that have kept names from being claimed for long enough.
    pub(super) fn end_fenced(&mut self, now: Moment) -> Option<Request> {
        let again = now + self.end_after();
        let mut fenced = Vec::new();
        for (name, refused) in &mut self.refused {
            if refused.fenced
                && now >= refused.end_due
                && matches!(self.names.get(name), Some(Standing::Standby { .. }))
            {
                refused.end_due = again;
                fenced.push((name.clone(), refused.holder));
            }
        }
        (!fenced.is_empty()).then_some(Request::EndFenced { fenced })
    }

    pub(super) fn forget_refused(&mut self) {
        self.refused.clear();
    }

    /// An idle transaction is ended by the server itself (I8). What is not idle, a `COPY` or a statement that runs on
    /// after its process was killed, is ended after half as long, so that it never takes longer than that bound.
    fn end_after(&self) -> Duration {
        self.timings.fence_idle() / 2
    }
}
