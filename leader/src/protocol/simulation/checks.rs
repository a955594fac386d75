//! What must be true after each step, and in the end.

use super::replica::{Replica, Work};
use super::wire::Heard;
use super::world::World;
use super::{ATTEMPT, CAMPAIGN, DEADLINE, Kind, RELEASE, RENEW, SETTLED, millis};
use crate::name::WorkName;
use crate::protocol::messages::Loss;
use crate::protocol::{Effect, Ending, Request, Term};

/// What a few statements take at most, if nothing goes wrong.
const BRISK: u64 = 60;

impl World {
    pub(super) fn check(&mut self) {
        for index in 0..self.names.len() {
            self.check_alone(index);
        }
        self.check_fences();
        for index in 0..self.replicas.len() {
            if let Some(mut replica) = self.replicas[index].take() {
                if !replica.is_frozen(self.now) {
                    self.check_replica(&mut replica);
                }
                self.replicas[index] = Some(replica);
            }
        }
        self.check_bounds();
    }

    /// Promise 1: of all replicas that are not frozen, one runs a name. Who was robbed by an operator may not have
    /// heard of it yet; whoever else runs the name meanwhile does so alone.
    fn check_alone(&mut self, index: usize) {
        let name = &self.names[index];
        let awake = self.replicas.iter().flatten().filter(|replica| !replica.is_frozen(self.now));
        let (mut all, mut rightful) = (0, 0);
        for work in awake.filter_map(|replica| replica.works.get(name)) {
            all += 1;
            let robbed = self.robbed.contains(&work.session)
                || (!self.erased.is_empty() && self.erased.contains(&(name.clone(), work.term)));
            rightful += u32::from(!robbed);
        }
        if all > 1 {
            let allowed = self.kind == Kind::Clock || rightful <= 1;
            assert!(allowed, "promise 1: {rightful} replicas run {name} at {} ms", self.now);
            self.told.count("moments with two leaders");
        }
    }

    /// I3: the name of an open transaction does not move.
    fn check_fences(&self) {
        for fence in self.database.fences.open() {
            let holds = self.database.is_held(&fence.name, fence.session, fence.term);
            assert!(holds, "I3: {} was taken from an open transaction before {} ms", fence.name, self.now);
        }
    }

    fn check_replica(&mut self, replica: &mut Replica) {
        let (now, index) = (self.now, replica.index);
        for (name, work) in &replica.works {
            let confirmed = replica.good.get(&work.session).is_some_and(|good| now < good + DEADLINE);
            assert!(work.lost.is_some() || confirmed, "I5: {name} goes on after its deadline at {now} ms");
        }
        if replica.wire.as_ref().is_some_and(|wire| wire.is_slow(now)) {
            // Whatever hangs is waited for.
            replica.disturbed = replica.disturbed.max(now);
        }
        let idle = replica.works.is_empty();
        if let Some(asked) = replica.shut_down {
            // What was on the wire when the last work ended is waited for first.
            let by = asked.max(replica.ended).max(replica.frozen_until) + ATTEMPT + RELEASE;
            assert!(!idle || now <= by, "replica {index} is still there {} ms late", now - by);
        } else if let Some(lost) = replica.without {
            let by = lost.max(replica.disturbed) + BRISK;
            assert!(now <= by, "I6: replica {index} lost its session at {lost} ms and has none at {now} ms");
        }
        let sessions = &self.database.sessions;
        replica.lost.retain(|(id, _)| sessions.contains_key(id));
        if replica.shut_down.is_none() && replica.without.is_none() {
            for (id, lost) in &replica.lost {
                // Its closing may have failed twice and more, and is not tried for a while then.
                let by = (*lost).max(replica.ended).max(replica.disturbed) + BRISK + CAMPAIGN;
                let winds_down = replica.works.values().any(|work| work.session == *id);
                assert!(winds_down || now <= by, "I6: replica {index} has not closed {id} at {now} ms");
            }
        }
        if let Some(session) = replica.campaign.session().filter(|_| replica.shut_down.is_none()) {
            for (name, (holder, term)) in &self.database.names {
                let hold = (name.clone(), Term::new(*term));
                if *holder == Some(session.id)
                    && let Some(since) = self.orphaned.get(&hold)
                {
                    let by = (*since).max(replica.disturbed) + RENEW + BRISK;
                    assert!(now <= by, "I7: replica {index} still holds {name} under {term} at {now} ms");
                }
            }
        }
    }

    /// Before a statement is sent.
    pub(super) fn check_sent(&self, replica: &Replica, request: &Request) {
        if let Request::Claim { names, .. } = request {
            let own = names.iter().find(|name| replica.works.contains_key(*name));
            assert_eq!(own, None, "I4: campaigned for beside its own work at {} ms", self.now);
        }
    }

    /// Before a statement takes effect.
    pub(super) fn check_request(&mut self, request: &Request) {
        let works = || self.replicas.iter().flatten().flat_map(|replica| &replica.works);
        match request {
            Request::Release { holds, .. } => {
                for (name, term) in holds {
                    let runs = works().any(|(of, work)| of == name && work.term == *term);
                    assert!(!runs, "I4: {name} is released at {} ms while its work runs", self.now);
                    if self.orphaned.contains_key(&(name.clone(), *term)) {
                        self.told.count("released unheard");
                    }
                }
            }
            Request::Close { id } => {
                let runs = works().any(|(_, work)| work.session == *id);
                assert!(!runs, "I4: {id} is closed at {} ms while a work of it runs", self.now);
                let mut replicas = self.replicas.iter().flatten();
                let lost = replicas.any(|replica| replica.lost.iter().any(|(lost, _)| lost == id));
                if lost && self.database.sessions.contains_key(id) && !self.database.held(*id).is_empty() {
                    self.told.count("lost and closed with names");
                }
            }
            _ => {}
        }
    }

    /// Before what a campaign says is done; `heard` is the answer that it comes from.
    pub(super) fn check_effects(&mut self, replica: &Replica, effects: &[Effect], heard: Option<&Heard>) {
        let now = self.now;
        let all_lost = effects.iter().any(|effect| matches!(effect, Effect::SessionLost { .. }));
        for effect in effects {
            if heard.is_some_and(|heard| heard.late) {
                let by_itself = match effect {
                    Effect::SessionLost { why, .. } => *why == Loss::Deadline,
                    Effect::End { .. } | Effect::Released { .. } => all_lost,
                    _ => false,
                };
                assert!(by_itself, "I5: {effect:?} by an answer that came too late, at {now} ms");
            }
            match effect {
                Effect::Trusted { session, good } => {
                    if let Some(heard) = heard {
                        assert_eq!(millis(*good), heard.started, "I5: trusted since another moment");
                    }
                    let known = replica.good.contains_key(session);
                    let revived = known && replica.without.is_some();
                    assert!(!revived, "I6: {session} is revived at {now} ms");
                    if replica.without.is_some() {
                        self.told.count("opened anew");
                    }
                }
                Effect::SessionLost { session, why: Loss::Gone } => {
                    assert!(self.database.refused.contains(session), "{session} is given up at {now} ms");
                }
                Effect::SessionLost { session, .. } => {
                    let late = replica.good.get(session).is_none_or(|good| now >= good + DEADLINE);
                    assert!(late, "{session} is given up before its deadline at {now} ms");
                }
                Effect::Elected { name, term, session } => {
                    let hold = (name.clone(), *term);
                    assert!(!replica.works.contains_key(name), "I4: elected beside its own work at {now} ms");
                    let claimed = self.database.claims.get(&hold);
                    assert_eq!(claimed, Some(session), "I4: {name} was not claimed before {now} ms");
                    assert!(!self.orphaned.contains_key(&hold), "I7: {name} is adopted at {now} ms");
                    let campaigns = replica.shut_down.is_none();
                    assert!(campaigns, "{name} is begun during a shutdown at {now} ms");
                }
                Effect::End { name, term, ending: Ending::LeaseLost } if !all_lost => {
                    if let Some(Work { session, .. }) = replica.works.get(name) {
                        let ours = self.database.is_held(name, *session, *term);
                        assert!(!ours, "I5: {name} counts as lost at {now} ms");
                        self.told.count("names found lost");
                    }
                }
                Effect::Confirmed { .. } => self.check_confirmed(replica, effects, heard),
                _ => {}
            }
        }
        assert!(now < SETTLED || !all_lost, "a session is lost at {now} ms although nothing goes wrong");
    }

    /// I5: what runs here is what the answer says.
    fn check_confirmed(&mut self, replica: &Replica, effects: &[Effect], heard: Option<&Heard>) {
        let held = &heard.expect("by an answer").held;
        let of = replica.campaign.session().map(|session| session.id);
        for (name, work) in &replica.works {
            let lost = |effect: &Effect| matches!(effect, Effect::End { name: of, ending: Ending::LeaseLost, .. } if of == name);
            if Some(work.session) != of || work.lost.is_some() || effects.iter().any(lost) {
                continue;
            }
            let is_held = held.contains(&(name.clone(), work.term));
            assert!(is_held, "I5: {name} is confirmed at {} ms and was not held", self.now);
        }
        self.told.count("confirmed");
    }

    /// A shutdown is complete; `closed` as far as the replica knows.
    pub(super) fn check_done(&mut self, replica: &Replica, closed: bool) {
        assert!(replica.works.is_empty(), "a shutdown leaves works behind at {} ms", self.now);
        if closed {
            let left = replica.good.keys().find(|id| self.database.sessions.contains_key(*id));
            assert_eq!(left, None, "a shutdown leaves a session behind at {} ms", self.now);
            self.told.count("shut down and closed");
        } else {
            assert!(self.now < SETTLED, "a session is not closed at {} ms", self.now);
            self.told.count("shut down and not closed");
        }
    }

    /// I6: once nothing goes wrong any more, every name has one leader that everybody agrees on.
    pub(super) fn check_settled(&mut self) {
        if self.now > SETTLED {
            return;
        }
        for name in &self.names {
            let leaders: Vec<&Work> =
                self.replicas.iter().flatten().filter_map(|replica| replica.works.get(name)).collect();
            let [leader] = leaders.as_slice() else { panic!("{} leaders of {name}", leaders.len()) };
            assert!(self.database.is_held(name, leader.session, leader.term), "{name} is somebody else's");
        }
        for replica in self.replicas.iter().flatten() {
            let a_second = replica.statements * 1_000 / (self.now - replica.started).max(1);
            assert!(a_second < 40, "{a_second} statements a second (replica of seed {})", replica.seed);
        }
    }
}

impl Replica {
    /// Whether a work of it runs that was not told to end.
    pub(super) fn runs(&self, name: &WorkName) -> bool {
        self.works.get(name).is_some_and(|work| work.ends.is_none())
    }
}
