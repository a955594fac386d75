//! One step of the model: what can happen next, and what it breaks.

use crate::rules::{Bound, Rules};
use crate::state::{Id, Request, State};

/// What must hold. The numbers are those of `docs/design.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    /// At most one replica runs the name that is not frozen, has not been told of a loss, and whose deadline has not passed.
    Promise1,
    /// A fenced transaction commits only if no other replica has been elected since it began.
    Promise2,
    /// Work whose lease is lost does not run beside its successor, unless its process was frozen as it should have ended.
    Promise4,
    /// A claim moves a name only from a session that is gone.
    I1,
    /// Terms grow, and a fence is granted and a fenced transaction commits only while the row of the name has its session
    /// and term.
    I2,
    /// No claim while a fenced transaction is open.
    I3,
    /// No tenure before its claim is committed or beside own work; no release or close before the work has ended.
    I4,
    /// No lost session is renewed or used again.
    I6,
    /// No tenure begins but with the answer to its claim.
    I7,
}

const PROPERTIES: [Property; 9] = [
    Property::Promise1,
    Property::Promise2,
    Property::Promise4,
    Property::I1,
    Property::I2,
    Property::I3,
    Property::I4,
    Property::I6,
    Property::I7,
];

/// Properties, a bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Properties(u16);

impl Properties {
    pub(crate) const ALL: Self = Self(u16::MAX);

    pub(crate) const PROMISES: Self = Self(
        1 << Property::Promise1 as u16 | 1 << Property::Promise2 as u16 | 1 << Property::Promise4 as u16,
    );

    pub(crate) fn only(property: Property) -> Self {
        Self(1 << property as u16)
    }

    pub(crate) fn has(self, property: Property) -> bool {
        self.0 & (1 << property as u16) != 0
    }

    /// The first that is in both.
    pub(crate) fn common(self, other: Self) -> Option<Property> {
        let common = Self(self.0 & other.0);
        if common.0 == 0 { None } else { PROPERTIES.into_iter().find(|property| common.has(*property)) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Whose, counted from 0.
    pub(crate) replica: usize,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Starts,
    StopsGracefully,
    Crashes,
    /// The watchdog ends the process.
    Exits,
    Freezes,
    Thaws,
    /// The deadline has passed.
    MarksLoss,
    Sends(Request),
    Hears(Request),
    /// No answer is waited for any more.
    GivesUp(Request),
    /// Under a claim that is not known to be committed.
    StartsEarly,
    WorkEnds,
    SendsFence,
    SendsCommit,
    /// The database takes a statement's next step.
    Executes(Request),
    Commits(Request),
    /// The database never hears of it, or rolls it back.
    Aborts(Request),
    Expires(Id),
    /// The fence was granted, or refused.
    Fenced(bool),
    TransactionCommits,
    /// The server ends the transaction, as idle or because its connection is gone.
    TransactionEnds,
}

/// What is counted, so that one knows that it was put to the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Election,
    /// An election after the last session was reaped or closed.
    Takeover,
    /// An election of a session that was reaped after the claim had looked at it.
    ElectedWhenGone,
    Commit,
    RefusedFence,
    /// A claim that a fenced transaction or another statement kept out.
    ClaimKeptOut,
    /// A claim whose row had changed since its snapshot.
    ClaimRefused,
    ReleaseKept,
    /// A name found whose claim had no answer (I7).
    LostClaimFound,
    /// A renewal that committed after its old expiry had passed.
    LateRenewal,
    /// A reap that found the session renewed since the scan.
    ReapInVain,
    /// A statement that was given up changed a row.
    StrayCommitted,
}

impl Event {
    pub(crate) const COUNT: usize = Self::StrayCommitted as usize + 1;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Move<const R: usize> {
    pub(crate) step: Step,
    pub(crate) next: State<R>,
    pub(crate) broken: Properties,
    pub(crate) event: Option<Event>,
}

/// Gathers what can happen next.
pub(crate) struct Moves<'m, const R: usize> {
    pub(crate) now: &'m State<R>,
    pub(crate) bound: Bound,
    pub(crate) rules: Rules,
    pub(crate) out: &'m mut Vec<Move<R>>,
}

impl<const R: usize> Moves<'_, R> {
    /// All that can happen next.
    pub(crate) fn gather(&mut self) {
        for replica in 0..R {
            self.of_replica(replica);
            self.of_statements(replica);
            self.of_transaction(replica);
        }
        self.of_clock();
    }

    /// A step of a replica, to be shaped by `change`.
    pub(crate) fn add(&mut self, replica: usize, what: What, change: impl FnOnce(&mut Move<R>)) {
        let step = Step { replica, what };
        let mut next = Move { step, next: *self.now, broken: Properties::default(), event: None };
        change(&mut next);
        next.require_of_state();
        self.out.push(next);
    }
}

impl<const R: usize> Move<R> {
    pub(crate) fn require(&mut self, holds: bool, property: Property) {
        if !holds {
            self.broken.0 |= Properties::only(property).0;
        }
    }

    /// What every state must be like.
    fn require_of_state(&mut self) {
        let replicas = self.next.replicas;
        let leading = replicas.iter().filter(|replica| replica.leads_in_health()).count();
        self.require(leading <= 1, Property::Promise1);
        let running = replicas.iter().filter(|replica| replica.runs_on()).count();
        self.require(running <= 1, Property::Promise4);
        let marked = self.next.marked;
        self.require(replicas.iter().all(|replica| !marked.has(replica.session)), Property::I6);
    }
}
