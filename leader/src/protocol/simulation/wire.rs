//! Between the replicas and the database: what is late, lost or cut off, and what comes of it.

use super::replica::Replica;
use super::world::World;
use super::{FAULTS_UNTIL, at, millis};
use crate::name::WorkName;
use crate::protocol::{Attempt, Failure, Hold, Reply, Request};

/// The longest that anything takes from a replica to the database or back, if nothing goes wrong.
const SLOWEST: u64 = 3;

/// A statement between a replica and the database.
pub(super) struct Wire {
    pub(super) attempt: Attempt,
    /// When it arrives, if it does and has not yet.
    pub(super) arrives: Option<u64>,
    reply: Option<Reply>,
    /// What the session held then.
    held: Vec<Hold>,
    /// When the answer comes, if it does and has not yet.
    pub(super) answers: Option<u64>,
    /// The answer has come.
    answered: bool,
}

/// A request that was given up and is still on its way: it arrives all the same.
pub(super) struct Stray {
    pub(super) arrives: u64,
    /// From which replica.
    index: usize,
    request: Request,
}

impl Wire {
    /// It takes longer than it does when nothing goes wrong.
    pub(super) fn is_slow(&self, now: u64) -> bool {
        now > millis(self.attempt.started) + 2 * SLOWEST
    }
}

/// An answer as a replica hears it.
pub(super) struct Heard {
    pub(super) started: u64,
    /// Its attempt had been given up (I5).
    pub(super) late: bool,
    pub(super) held: Vec<Hold>,
}

impl World {
    pub(super) fn is_cut(&self, index: usize) -> bool {
        self.now < self.cut_until[index]
    }

    pub(super) fn send(&mut self, attempt: Attempt) -> Wire {
        let latency = self.rng.u64(1..=SLOWEST);
        let mut arrives = Some(self.now + latency);
        let mut answers = Some(self.now + 2 * latency);
        if self.now < FAULTS_UNTIL {
            match self.rng.u32(..40) {
                0 => arrives = None,
                1 | 2 => answers = None,
                3 => {
                    let late = self.rng.u64(..1_500);
                    arrives = Some(self.now + latency + late);
                    answers = Some(self.now + 2 * latency + late);
                }
                4 => answers = Some(self.now + 2 * latency + self.rng.u64(..1_500)),
                _ => {}
            }
        }
        Wire { attempt, arrives, reply: None, held: Vec::new(), answers, answered: false }
    }

    /// Moves what is on its way. Replicas that are frozen make no difference to that.
    pub(super) fn deliver(&mut self) {
        let now = self.now;
        let due: Vec<Stray> = self.stray.extract_if(.., |stray| stray.arrives <= now).collect();
        for stray in due {
            if self.is_cut(stray.index) {
                continue;
            }
            self.told.count("arrived though given up");
            if let Reply::Claimed(won) = self.arrive(&stray.request) {
                self.orphan(won);
            }
        }
        for index in 0..self.replicas.len() {
            let cut = self.is_cut(index);
            let Some(wire) = self.replicas[index].as_mut().and_then(|replica| replica.wire.as_mut()) else {
                continue;
            };
            if wire.answers.take_if(|answers| *answers <= now).is_some() {
                wire.answered = wire.reply.is_some() && !cut;
                if cut {
                    self.told.count("cut off");
                }
            }
            if wire.arrives.take_if(|arrives| *arrives <= now).is_none() {
                continue;
            }
            if cut {
                self.told.count("cut off");
                continue;
            }
            let request = wire.attempt.request.clone();
            let held = match &request {
                Request::Renew { id } | Request::Held { id } => self.database.held(*id),
                _ => Vec::new(),
            };
            let reply = self.arrive(&request);
            if let Some(wire) = self.replicas[index].as_mut().and_then(|replica| replica.wire.as_mut()) {
                wire.reply = Some(reply);
                wire.held = held;
            }
        }
    }

    /// A request has reached the database, which tells everybody what it freed.
    fn arrive(&mut self, request: &Request) -> Reply {
        self.check_request(request);
        let was_there = |id| self.database.sessions.contains_key(id);
        let closes = matches!(request, Request::Close { id } if was_there(id));
        let reply = self.database.answer(request, self.now);
        if let Reply::Released { kept } = &reply {
            self.told.count_many("locked at its release", kept.len() as u64);
        }
        if self.hints {
            let freed = freed(request, &reply);
            for index in 0..self.replicas.len() {
                let cut = self.is_cut(index);
                if let Some(replica) = self.replicas[index].as_mut().filter(|_| !cut) {
                    replica.freed.extend(freed.iter().cloned());
                    replica.closed |= closes;
                }
            }
        }
        reply
    }

    /// Nobody will hear of these claims (I7).
    fn orphan(&mut self, won: Vec<Hold>) {
        self.told.count_many("claimed unheard", won.len() as u64);
        self.orphaned.extend(won.into_iter().map(|hold| (hold, self.now)));
    }

    /// An answer, or the end of its time.
    pub(super) fn hear(&mut self, replica: &mut Replica) {
        let now = self.now;
        let due = |wire: &mut Wire| at(now) >= wire.attempt.give_up || wire.answered;
        let Some(wire) = replica.wire.take_if(due) else { return };
        let late = at(now) > wire.attempt.give_up;
        let started = millis(wire.attempt.started);
        if late && wire.answered {
            self.told.count("heard too late");
        }
        if wire.is_slow(now) {
            replica.disturbed = replica.disturbed.max(now);
        }
        if late || !wire.answered {
            replica.failed(&wire.attempt.request, started, now);
            if let Some(Reply::Claimed(won)) = &wire.reply {
                self.orphan(won.clone());
            }
        }
        self.keep_stray(replica.index, &wire);
        let reply = wire.reply.filter(|_| wire.answered).ok_or(Failure::Unknown);
        replica.campaign.answer(wire.attempt, reply, at(now));
        replica.wake = now;
        self.apply(replica, Some(&Heard { started, late, held: wire.held }));
    }

    /// What is on its way arrives, whatever becomes of who sent it.
    pub(super) fn keep_stray(&mut self, index: usize, wire: &Wire) {
        if let Some(arrives) = wire.arrives {
            self.stray.push(Stray { arrives, index, request: wire.attempt.request.clone() });
        }
    }
}

/// What a release announces.
fn freed(request: &Request, reply: &Reply) -> Vec<WorkName> {
    let (Request::Release { holds, .. }, Reply::Released { kept }) = (request, reply) else {
        return Vec::new();
    };
    holds.iter().filter(|hold| !kept.contains(hold)).map(|(name, _)| name.clone()).collect()
}
