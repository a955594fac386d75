//! Replicas, their database and what lies between them, moment by moment.

use std::collections::BTreeMap;

use super::database::Database;
use super::replica::{Replica, Wire, Work};
use super::{REPLICAS, Told, at, names, timings};
use crate::name::WorkName;
use crate::protocol::{
    Attempt, Campaign, Effect, Ending, Failure, Hint, Next, Reply, Request, Session, SessionId,
};

pub(super) struct World {
    pub(super) now: u64,
    pub(super) rng: fastrand::Rng,
    pub(super) database: Database,
    pub(super) replicas: Vec<Option<Replica>>,
    /// Requests that were given up and are still on their way: they arrive all the same.
    pub(super) stray: Vec<(u64, Request)>,
    /// Until then things go wrong.
    pub(super) faults_until: u64,
    pub(super) operator: bool,
    pub(super) ids: u128,
    pub(super) told: Told,
}

impl World {
    pub(super) fn new(seed: u64, operator: bool) -> Self {
        Self {
            now: 1_000,
            rng: fastrand::Rng::with_seed(seed),
            database: Database::default(),
            replicas: (0..REPLICAS).map(|_| None).collect(),
            stray: Vec::new(),
            faults_until: 20_000,
            operator,
            ids: 0,
            told: Told::default(),
        }
    }

    fn start(&mut self, index: usize) {
        self.ids += 1;
        let id = SessionId::new(self.ids << 32);
        self.database.answer(&Request::Ensure { names: names() }, self.now);
        self.database.answer(&Request::Open { id }, self.now);
        let (mut next, base) = (0, self.ids << 32);
        let fresh = move || {
            next += 1;
            SessionId::new(base + next)
        };
        let seed = self.rng.u64(..);
        let campaign = Campaign::new(
            timings(),
            names(),
            Session::opened(id, at(self.now)),
            fastrand::Rng::with_seed(seed),
            fresh,
        );
        self.replicas[index] = Some(Replica {
            campaign,
            wire: None,
            wake: self.now,
            hears: false,
            heard: Vec::new(),
            frozen_until: 0,
            works: BTreeMap::new(),
            good: BTreeMap::new(),
            statements: 0,
            seed,
        });
    }

    pub(super) fn run(&mut self) {
        while self.now < self.faults_until + 10_000 {
            let faulty = self.now < self.faults_until;
            for index in 0..REPLICAS {
                if self.replicas[index].is_none() && (!faulty || self.rng.u32(..200) == 0) {
                    self.start(index);
                }
                if faulty {
                    self.trouble(index);
                }
            }
            if faulty && self.operator && self.rng.u32(..4_000) == 0 {
                self.meddle();
            }
            let due: Vec<Request> =
                self.stray.extract_if(.., |stray| stray.0 <= self.now).map(|s| s.1).collect();
            for request in due {
                self.database.answer(&request, self.now);
            }
            self.database.fences.end_idle(self.now);
            for index in 0..REPLICAS {
                self.step(index, faulty);
            }
            self.check();
            self.now += 1;
        }
        self.check_alive();
        self.told.ended = self.database.ended;
    }

    /// A crash or a freeze, now and then.
    fn trouble(&mut self, index: usize) {
        let now = self.now;
        if self.rng.u32(..8_000) == 0 {
            if let Some(replica) = self.replicas[index].take() {
                self.died(&replica);
            }
        } else if self.rng.u32(..3_000) == 0
            && let Some(replica) = &mut self.replicas[index]
        {
            replica.frozen_until = now + self.rng.u64(..2_500);
        }
    }

    /// Of the transactions of a process that is gone, those are left that run a statement.
    fn died(&mut self, replica: &Replica) {
        for (id, _) in replica.works.values().filter_map(|work| work.open) {
            self.database.fences.cut(id);
        }
    }

    /// Rows disappear under running replicas. A lock is waited for, and the next moment will do.
    fn meddle(&mut self) {
        let Database { sessions, names, fences, .. } = &mut self.database;
        match self.rng.u32(..3) {
            0 => sessions.clear(),
            1 => names.retain(|name, _| fences.lock(name)),
            _ => {
                sessions.pop_first();
            }
        }
    }

    fn step(&mut self, index: usize, faulty: bool) {
        let now = self.now;
        // The database does its part whether or not the replica is frozen.
        if let Some(wire) = self.replicas[index].as_mut().and_then(|replica| replica.wire.as_mut())
            && wire.arrives == Some(now)
        {
            let reply = self.database.answer(&wire.attempt.request, now);
            let freed = freed(&wire.attempt.request, &reply);
            wire.reply = Some(reply);
            for replica in self.replicas.iter_mut().flatten() {
                replica.heard.extend(freed.iter().cloned());
            }
        }
        let Some(mut replica) = self.replicas[index].take() else { return };
        if now < replica.frozen_until {
            self.replicas[index] = Some(replica);
            return;
        }
        if replica.must_exit(now) {
            // The watchdog: the process is gone.
            self.died(&replica);
            return;
        }
        let ended: Vec<WorkName> = replica
            .works
            .iter()
            .filter(|(_, work)| work.ends.is_some_and(|ends| ends <= now))
            .map(|(n, _)| n.clone())
            .collect();
        for name in ended {
            let mut work = replica.works.remove(&name).expect("it was there");
            self.roll_back(&mut work);
            replica.campaign.work_ended(&name, work.term, at(now));
            replica.wake = now;
        }
        for (name, work) in &mut replica.works {
            self.write(name, work, faulty);
        }
        // A work returns by itself now and then.
        for work in replica.works.values_mut() {
            if faulty && work.ends.is_none() && self.rng.u32(..5_000) == 0 {
                work.ends = Some(now);
            }
        }
        self.hear(&mut replica, now);
        if faulty && replica.hears && replica.wire.is_none() && self.rng.u32(..100) == 0 {
            // True or not.
            let names = names().into_iter().filter(|_| self.rng.bool()).collect();
            replica.campaign.hint(if self.rng.bool() { Hint::Freed(names) } else { Hint::Look }, at(now));
            replica.wake = now;
        }
        if replica.hears && replica.wire.is_none() && !replica.heard.is_empty() {
            replica.campaign.hint(Hint::Freed(std::mem::take(&mut replica.heard)), at(now));
            replica.wake = now;
        }
        let mut sent = 0;
        while replica.wire.is_none() && replica.wake <= now {
            match replica.campaign.next(at(now)) {
                Next::Send(attempt) => {
                    replica.statements += 1;
                    replica.wire = Some(self.send(attempt, faulty));
                }
                Next::Wait { until, hints } => {
                    replica.hears = hints;
                    assert!(until > at(now), "a wait that is over would spin");
                    replica.wake =
                        u64::try_from(until.since(at(0)).as_nanos().div_ceil(1_000_000)).expect("small");
                }
                Next::Done => unreachable!("nobody shuts down"),
            }
            sent += 1;
            assert!(sent < 10, "a step that never ends");
        }
        self.apply(&mut replica, now);
        self.replicas[index] = Some(replica);
    }

    /// A work commits its fenced transaction when it is due, and begins one now and then. Every fourth runs a statement as
    /// long as it is open.
    fn write(&mut self, name: &WorkName, work: &mut Work, faulty: bool) {
        let idle = u64::try_from(timings().fence_idle().as_millis()).expect("small");
        let mine = (Some(work.session), work.term.get());
        let row = self.database.names.get(name).copied();
        match work.open {
            Some((id, due)) if due <= self.now => {
                work.open = None;
                // Else it is refused: the server has ended it.
                if self.database.fences.end(id) {
                    assert_eq!(row, Some(mine), "promise 2: committed under {name} at {} ms", self.now);
                    self.told.commits += 1;
                }
            }
            None if faulty && work.ends.is_none() && row == Some(mine) && self.rng.u32(..200) == 0 => {
                let idle_until = (self.rng.u32(..4) > 0).then_some(self.now + idle);
                let id = self.database.fences.begin(name, work.session, idle_until);
                work.open = Some((id, self.now + self.rng.u64(..400)));
            }
            _ => {}
        }
    }

    fn roll_back(&mut self, work: &mut Work) {
        if let Some((id, _)) = work.open.take() {
            self.database.fences.end(id);
        }
    }

    /// An answer, or the end of its time.
    fn hear(&mut self, replica: &mut Replica, now: u64) {
        let Some(wire) = &mut replica.wire else { return };
        let given_up = at(now) >= wire.attempt.give_up;
        let answered = wire.reply.is_some() && wire.answers.is_some_and(|answers| answers <= now);
        if !given_up && !answered {
            return;
        }
        let wire = replica.wire.take().expect("it was there");
        let reply = if answered { wire.reply.ok_or(Failure::Unknown) } else { Err(Failure::Unknown) };
        if let Some(arrives) = wire.arrives.filter(|arrives| *arrives > now) {
            self.stray.push((arrives, wire.attempt.request.clone()));
        }
        replica.campaign.answer(wire.attempt, reply, at(now));
        replica.wake = now;
    }

    fn send(&mut self, attempt: Attempt, faulty: bool) -> Wire {
        let latency = 1 + self.rng.u64(..3);
        let mut arrives = Some(self.now + latency);
        let mut answers = Some(self.now + 2 * latency);
        if faulty {
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
        Wire { attempt, arrives, reply: None, answers }
    }

    fn apply(&mut self, replica: &mut Replica, now: u64) {
        for effect in replica.campaign.effects() {
            match effect {
                Effect::Trusted { session, good } => {
                    let good = u64::try_from(good.since(at(0)).as_millis()).expect("small");
                    replica.good.insert(session, good);
                }
                Effect::Elected { name, term, session } => {
                    self.told.elections += 1;
                    let work = Work { term, session, ends: None, lost: None, open: None };
                    assert!(replica.works.insert(name, work).is_none(), "I4: elected beside its own work");
                }
                Effect::End { name, ending, .. } => {
                    let Some(work) = replica.works.get_mut(&name) else { continue };
                    let patience = if self.rng.u32(..10) == 0 { 5_000 } else { self.rng.u64(..300) };
                    work.ends = Some(work.ends.unwrap_or(now + patience));
                    self.roll_back(work);
                    if ending == Ending::LeaseLost {
                        self.told.losses += 1;
                        work.lost = Some(now);
                    }
                }
                _ => {}
            }
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
