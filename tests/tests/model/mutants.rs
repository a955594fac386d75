//! The protocol with one rule broken, or with the fewest that it takes: the model must find the consequence.

use crate::explore::explore;
use crate::rules::{Bound, Mutant};
use crate::steps::{Properties, Property};

/// The smallest bounds that do.
const PLAIN: Bound = Bound::least();
const FENCED: Bound = Bound { transactions: 1, ..PLAIN };
const GIVEN_UP: Bound = Bound { given_up: 1, ..PLAIN };
const GIVEN_UP_3: Bound = Bound { elections: 3, given_up: 1, ..PLAIN };
const FROZEN: Bound = Bound { freezes: 1, ..PLAIN };
const FROZEN_2: Bound = Bound { sessions: 2, freezes: 1, ..PLAIN };
const LOST_2: Bound = Bound { sessions: 2, losses: 1, ..PLAIN };

/// Looks for one property alone: an invariant is often broken some steps before the promise that rests on it.
fn finds(mutants: &[Mutant], property: Property, bound: Bound) {
    let explored = explore::<2>(bound, mutants, Properties::only(property));
    let Some(violation) = explored.violation else {
        panic!("{mutants:?} breaks no {property:?} in {} states", explored.states.len());
    };
    println!("{mutants:?} breaks {property:?} after {} steps:\n{}", violation.length, violation.path);
}

/// Another rule covers it.
fn survives(mutants: &[Mutant], watched: Properties, bound: Bound) {
    let explored = explore::<2>(bound, mutants, watched);
    if let Some(violation) = explored.violation {
        panic!("{mutants:?} breaks {:?} after\n{}", violation.property, violation.path);
    }
}

#[test]
fn claims() {
    use Mutant::{
        ClaimByJoin, ClaimTakesExpired, ClaimWithoutComparing, ClaimWithoutOwnSession, ElectedBeforeCommit,
    };
    finds(&[ClaimWithoutComparing], Property::I1, PLAIN);
    finds(&[ClaimWithoutComparing], Property::Promise1, PLAIN);
    finds(&[ClaimTakesExpired], Property::I1, PLAIN);
    finds(&[ClaimTakesExpired], Property::Promise1, PLAIN);
    finds(&[ClaimByJoin], Property::I1, PLAIN);
    finds(&[ClaimByJoin], Property::Promise1, PLAIN);
    finds(&[ElectedBeforeCommit], Property::I4, PLAIN);
    finds(&[ElectedBeforeCommit], Property::Promise1, GIVEN_UP);
    // Covered by the deadline: whose own session has expired knows it, and hears no answer under it. The name then points to a
    // session that is gone, and is claimed from it like any other. (The protocol itself comes there, where the session is
    // reaped after the claim has looked at it.) What the look saves is time.
    survives(&[ClaimWithoutOwnSession], Properties::ALL, FROZEN);
    survives(&[ClaimWithoutOwnSession], Properties::ALL, LOST_2);
}

#[test]
fn sessions() {
    use Mutant::{CloseWhileRunning, ReapWithoutExpired, RenewOfExpired, ReviveLost, SameId};
    finds(&[ReapWithoutExpired], Property::Promise1, PLAIN);
    finds(&[ReviveLost], Property::I6, FROZEN);
    finds(&[ReviveLost], Property::Promise1, FROZEN);
    finds(&[SameId], Property::I6, LOST_2);
    finds(&[SameId], Property::Promise1, LOST_2);
    finds(&[CloseWhileRunning], Property::I4, LOST_2);
    finds(&[CloseWhileRunning], Property::Promise4, LOST_2);
    finds(&[RenewOfExpired], Property::I6, FROZEN);
    // The promises are covered by the reap: until then nobody can take a name from an expired session, and from then on there is
    // no row to renew. Whoever let the expiry pass has lost the lease and does not hear of the renewal.
    survives(&[RenewOfExpired], Properties::PROMISES, FROZEN);
    survives(&[RenewOfExpired], Properties::PROMISES, LOST_2);
}

#[test]
fn deadlines() {
    use Mutant::{DeadlineFromAnswer, NoDeadline};
    finds(&[NoDeadline], Property::Promise1, PLAIN);
    finds(&[DeadlineFromAnswer], Property::Promise1, FROZEN);
}

#[test]
fn fences() {
    use Mutant::{
        CommitWithoutCheck, FenceWithoutLock, FenceWithoutSession, FenceWithoutTerm, TermPerSession,
    };
    finds(&[FenceWithoutLock], Property::I3, FENCED);
    finds(&[FenceWithoutLock], Property::Promise2, FENCED);
    // A fence of a tenure that is over is let in. It goes no further by itself: the commit asks whether the tenure goes on.
    finds(&[FenceWithoutTerm], Property::I2, FENCED);
    survives(&[FenceWithoutTerm], Properties::PROMISES, FENCED);
    survives(&[CommitWithoutCheck], Properties::ALL, FENCED);
    finds(&[FenceWithoutTerm, CommitWithoutCheck], Property::Promise2, Bound { elections: 3, ..FENCED });
    // A term belongs to one session as long as it grows; after a release the row still has it.
    finds(&[FenceWithoutSession], Property::I2, FENCED);
    survives(&[FenceWithoutSession, CommitWithoutCheck], Properties::PROMISES, FENCED);
    survives(&[TermPerSession, CommitWithoutCheck], Properties::PROMISES, FENCED);
    finds(&[TermPerSession, FenceWithoutSession, CommitWithoutCheck], Property::Promise2, FENCED);
}

#[test]
fn releases() {
    use Mutant::{ReleaseWhileRunning, ReleaseWithoutSession, ReleaseWithoutTerm, TermPerSession};
    finds(&[ReleaseWithoutTerm], Property::I4, GIVEN_UP);
    finds(&[ReleaseWithoutTerm], Property::Promise1, GIVEN_UP_3);
    finds(&[ReleaseWhileRunning], Property::I4, PLAIN);
    finds(&[ReleaseWhileRunning], Property::Promise1, PLAIN);
    // A term belongs to one session as long as it grows.
    survives(&[ReleaseWithoutSession], Properties::ALL, GIVEN_UP_3);
    survives(&[TermPerSession], Properties::PROMISES, GIVEN_UP_3);
    finds(&[TermPerSession, ReleaseWithoutSession], Property::Promise1, GIVEN_UP_3);
}

#[test]
fn terms() {
    use Mutant::{TermPerSession, TermStays};
    finds(&[TermStays], Property::I2, PLAIN);
    finds(&[TermStays], Property::Promise1, GIVEN_UP_3);
    finds(&[TermPerSession], Property::I2, PLAIN);
}

#[test]
fn tenures() {
    use Mutant::{Adopt, CampaignWhileRunning};
    finds(&[CampaignWhileRunning], Property::I4, FROZEN_2);
    finds(&[Adopt], Property::I7, GIVEN_UP);
    finds(&[Adopt], Property::Promise1, GIVEN_UP);
}

#[test]
fn dead_ends() {
    let explored = explore::<2>(GIVEN_UP, &[Mutant::LostClaimForgotten], Properties::ALL);
    assert!(explored.violation.is_none(), "it breaks nothing, but nobody leads any more");
    assert!(!explored.dead_ends(GIVEN_UP).is_empty(), "a living session holds the name and runs nothing");
}
