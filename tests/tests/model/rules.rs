//! The rules of the protocol that the model can break, one each.

/// A predicate or a rule that is dropped or weakened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The claim does not compare the session of the name with what is known to be gone.
    ClaimWithoutComparing,
    /// The claim takes a name from a session that it reads as expired; nothing is reaped.
    ClaimTakesExpired,
    /// The claim looks for the session by itself, in its snapshot, in place of ids passed by value.
    ClaimByJoin,
    /// The claim does not look at its own session.
    ClaimWithoutOwnSession,
    /// The reap deletes what the scan saw as expired, whatever it is by now.
    ReapWithoutExpired,
    /// The renewal pushes an expiry that has passed.
    RenewOfExpired,
    FenceWithoutTerm,
    FenceWithoutSession,
    FenceWithoutLock,
    ReleaseWithoutTerm,
    ReleaseWithoutSession,
    /// A claim leaves the term as it is.
    TermStays,
    /// The term counts the claims of its session.
    TermPerSession,
    /// The work starts before its claim is known to be committed.
    ElectedBeforeCommit,
    ReleaseWhileRunning,
    CloseWhileRunning,
    /// A replica campaigns with a new session while work of its old one still runs.
    CampaignWhileRunning,
    /// What is held and not running is run, in place of released.
    Adopt,
    /// Nobody looks for a claim whose answer was lost.
    LostClaimForgotten,
    /// A renewal that is answered after the loss was marked gives the session back.
    ReviveLost,
    /// A new session has the id of the lost one.
    SameId,
    /// Nobody looks at the deadline.
    NoDeadline,
    /// The deadline is counted from the answer of a renewal, not from its start.
    DeadlineFromAnswer,
    /// The commit does not ask whether the tenure goes on.
    CommitWithoutCheck,
}

/// The rules without those that are broken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules(u32);

impl Rules {
    pub(crate) fn without(mutants: &[Mutant]) -> Self {
        Self(mutants.iter().fold(0, |rules, mutant| rules | 1 << *mutant as u32))
    }

    pub(crate) fn lack(self, mutant: Mutant) -> bool {
        self.0 & (1 << mutant as u32) != 0
    }
}

/// How much of each the exploration allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) elections: u8,
    /// For each replica.
    pub(crate) sessions: u8,
    /// Statements given up while they go on, or whose answer is lost.
    pub(crate) given_up: u8,
    pub(crate) freezes: u8,
    pub(crate) crashes: u8,
    /// Losses of replicas that are not frozen.
    pub(crate) losses: u8,
    pub(crate) transactions: u8,
    /// Whether replicas shut down.
    pub(crate) shutdown: bool,
}

impl Bound {
    /// A takeover, and no faults.
    pub(crate) const fn least() -> Self {
        Self {
            elections: 2,
            sessions: 1,
            given_up: 0,
            freezes: 0,
            crashes: 0,
            losses: 0,
            transactions: 0,
            shutdown: false,
        }
    }
}
