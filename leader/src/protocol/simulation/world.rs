//! Replicas, their database and what lies between them, from one moment at which something happens to the next.

use std::collections::{BTreeMap, BTreeSet};

use super::bounds::Bounds;
use super::database::Database;
use super::faults::{Fault, faults};
use super::replica::{Replica, Work};
use super::told::Told;
use super::wire::{Heard, Stray};
use super::{END, FAULTS_UNTIL, Kind, LEASE, REPLICAS, SETTLED, at, millis, names, timings};
use crate::name::WorkName;
use crate::protocol::messages::Loss;
use crate::protocol::{Effect, Ending, Hint, Hold, Next, Request, SessionId};

pub(super) struct World {
    pub(super) now: u64,
    pub(super) rng: fastrand::Rng,
    pub(super) kind: Kind,
    pub(super) names: Vec<WorkName>,
    pub(super) database: Database,
    /// Boxed, as they are taken out and put back all the time.
    pub(super) replicas: Vec<Option<Box<Replica>>>,
    /// When the next one starts in its place.
    pub(super) starts: [u64; REPLICAS],
    /// Until when nothing passes between it and the database.
    pub(super) cut_until: [u64; REPLICAS],
    pub(super) stray: Vec<Stray>,
    pub(super) faults: Vec<Fault>,
    /// Hints are delivered.
    pub(super) hints: bool,
    /// Claims that nobody heard of, and since when (I7).
    pub(super) orphaned: BTreeMap<Hold, u64>,
    /// Sessions that an operator deleted although they were alive, and names that he deleted.
    pub(super) robbed: BTreeSet<SessionId>,
    pub(super) erased: BTreeSet<Hold>,
    pub(super) bounds: Bounds,
    ids: u128,
    pub(super) told: Told,
}

impl World {
    pub(super) fn new(seed: u64, kind: Kind) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        Self {
            now: 1_000,
            kind,
            names: names(),
            // Far enough from zero to be set back.
            database: Database::ahead(1_000_000),
            replicas: (0..REPLICAS).map(|_| None).collect(),
            starts: std::array::from_fn(|_| 1_000 + rng.u64(..400)),
            cut_until: [0; REPLICAS],
            stray: Vec::new(),
            faults: faults(kind, &mut rng),
            hints: true,
            orphaned: BTreeMap::new(),
            robbed: BTreeSet::new(),
            erased: BTreeSet::new(),
            bounds: Bounds::default(),
            ids: 0,
            told: Told::default(),
            rng,
        }
    }

    pub(super) fn run(mut self) -> Told {
        // Hints are what is lost first: half of the runs do without, once nothing else goes wrong.
        let deaf = self.rng.bool();
        while self.now < END {
            if self.now < FAULTS_UNTIL {
                self.go_wrong();
            } else {
                self.hints = !deaf;
            }
            if self.now >= SETTLED {
                self.check_settled();
                self.probe();
            }
            self.deliver();
            self.database.fences.end_due(self.now);
            for index in 0..REPLICAS {
                if self.replicas[index].is_none() && self.may_start(index) <= self.now {
                    self.start(index);
                }
                self.step(index);
            }
            self.check();
            self.now = self.due().max(self.now + 1);
        }
        self.told.count_many("transactions ended", self.database.ended);
        self.told
    }

    /// When something happens next.
    fn due(&self) -> u64 {
        let phases = [FAULTS_UNTIL, SETTLED, END].into_iter().filter(|phase| *phase > self.now);
        let faults = self.faults.iter().map(|fault| fault.at).filter(|_| self.now < FAULTS_UNTIL);
        let strays = self.stray.iter().map(|stray| stray.arrives);
        let probe = self.bounds.due().filter(|_| self.now >= SETTLED);
        let replicas = (0..REPLICAS).map(|index| match &self.replicas[index] {
            None => self.may_start(index),
            Some(replica) => replica.due(self.now, self.cut_until[index]),
        });
        let due = phases.chain(faults).chain(strays).chain(probe).chain(replicas);
        due.chain(self.database.fences.due()).min().expect("a run has an end")
    }

    fn may_start(&self, index: usize) -> u64 {
        if self.now < FAULTS_UNTIL {
            self.starts[index].max(self.cut_until[index])
        } else if self.bounds.is_waiting() {
            // Its first look would find what others are to find.
            u64::MAX
        } else {
            self.now
        }
    }

    fn start(&mut self, index: usize) {
        self.ids += 1 << 32;
        let id = SessionId::new(self.ids);
        self.database.answer(&Request::Ensure { names: names() }, self.now);
        self.database.answer(&Request::Open { id }, self.now);
        let mut replica = Box::new(Replica::start(index, self.now, id, self.ids, self.rng.u64(..)));
        self.apply(&mut replica, None);
        self.replicas[index] = Some(replica);
    }

    fn step(&mut self, index: usize) {
        let now = self.now;
        let Some(mut replica) = self.replicas[index].take_if(|replica| !replica.is_frozen(now)) else {
            return;
        };
        if replica.exits().is_some_and(|exit| exit <= now) {
            // The watchdog: the process is gone.
            self.told.count("exits");
            self.die(index, &replica);
            return;
        }
        self.end_works(&mut replica);
        if !self.is_cut(index) {
            for (name, work) in &mut replica.works {
                self.write(name, work);
            }
        }
        self.apply(&mut replica, None);
        self.hear(&mut replica);
        self.hint(&mut replica);
        let mut sent = 0;
        let mut done = false;
        while !done && replica.wire.is_none() && replica.wake <= now {
            match replica.campaign.next(at(now)) {
                Next::Send(attempt) => {
                    replica.statements += 1;
                    self.check_sent(&replica, &attempt.request);
                    replica.wire = Some(self.send(attempt));
                }
                Next::Wait { until, hints } => {
                    replica.hears = hints;
                    assert!(until > at(now), "a wait that is over would spin");
                    replica.wake = millis(until);
                }
                Next::Done => done = true,
            }
            sent += 1;
            assert!(sent < 10, "a step that never ends");
        }
        let closed = self.apply(&mut replica, None);
        if done {
            self.check_done(&replica, closed);
            self.starts[index] = now + 1 + self.rng.u64(..400);
        } else {
            self.replicas[index] = Some(replica);
        }
    }

    /// Works return when they were told to, and now and then by themselves.
    fn end_works(&mut self, replica: &mut Replica) {
        let now = self.now;
        let over = |_: &WorkName, work: &mut Work| work.ends.unwrap_or(work.returns) <= now;
        for (name, mut work) in replica.works.extract_if(.., over) {
            self.roll_back(replica.index, &mut work);
            replica.campaign.work_ended(&name, work.term, at(now));
            replica.wake = now;
            replica.ended = now;
            if work.told.is_some_and(|told| told + LEASE < now) {
                self.told.count("ended after more than a lease");
            }
            if now >= SETTLED {
                self.bounds.given_back(name, now, self.hints);
            }
        }
    }

    /// A work commits its fenced transaction when it is due, and begins one now and then. Every fourth runs a statement as
    /// long as it is open.
    fn write(&mut self, name: &WorkName, work: &mut Work) {
        let idle = u64::try_from(timings().fence_idle().as_millis()).expect("small");
        let mine = self.database.is_held(name, work.session, work.term);
        match work.open {
            Some((id, due)) if due <= self.now => {
                work.open = None;
                work.begins = self.now + 1 + self.rng.u64(..400);
                // Else it is refused: the server has ended it.
                if self.database.fences.end(id) {
                    assert!(mine, "promise 2: committed under {name} at {} ms", self.now);
                    self.told.count("commits");
                }
            }
            None if work.ends.is_none() && work.begins <= self.now => {
                work.begins = self.now + 1 + self.rng.u64(..400);
                if mine {
                    let idle_until = (self.rng.u32(..4) > 0).then_some(self.now + idle);
                    let id = self.database.fences.begin(name, work.session, work.term, idle_until);
                    work.open = Some((id, self.now + 1 + self.rng.u64(..400)));
                }
            }
            _ => {}
        }
    }

    /// What runs a statement goes on for a while at the server, as does what cannot be reached.
    fn roll_back(&mut self, index: usize, work: &mut Work) {
        let Some((id, _)) = work.open.take() else { return };
        let reach = self.now.max(self.cut_until[index]);
        let ends = if self.now < FAULTS_UNTIL && self.database.fences.runs(id) {
            reach + self.rng.u64(..600)
        } else {
            reach
        };
        if ends > self.now {
            self.database.fences.end_at(id, ends);
        } else {
            self.database.fences.end(id);
        }
    }

    /// What was announced, and what was not.
    fn hint(&mut self, replica: &mut Replica) {
        if !replica.hears || replica.wire.is_some() {
            return;
        }
        let now = self.now;
        if replica.rumour <= now {
            replica.rumour = u64::MAX;
            if now < FAULTS_UNTIL {
                replica.rumour = now + 1 + self.rng.u64(..200);
                let names = self.names.iter().filter(|_| self.rng.bool()).cloned().collect();
                let hint = if self.rng.bool() { Hint::Freed(names) } else { Hint::Look };
                replica.campaign.hint(hint, at(now));
                replica.wake = now;
            }
        }
        if std::mem::take(&mut replica.closed) {
            replica.campaign.hint(Hint::Look, at(now));
            replica.wake = now;
        }
        if !replica.freed.is_empty() {
            replica.campaign.hint(Hint::Freed(std::mem::take(&mut replica.freed)), at(now));
            replica.wake = now;
        }
    }

    /// Does what the campaign says. Whether everything it had is closed, as far as it knows.
    pub(super) fn apply(&mut self, replica: &mut Replica, heard: Option<&Heard>) -> bool {
        let now = self.now;
        let effects = replica.campaign.effects();
        self.check_effects(replica, &effects, heard);
        let mut closed = true;
        for effect in effects {
            match effect {
                Effect::Trusted { session, good } => {
                    replica.good.insert(session, millis(good));
                    replica.without = None;
                }
                Effect::SessionLost { session, why } => {
                    self.told.count(if why == Loss::Deadline {
                        "lost at the deadline"
                    } else {
                        "found lost"
                    });
                    replica.without = Some(now);
                    replica.lost.push((session, now));
                }
                Effect::Elected { name, term, session } => {
                    self.told.count("elections");
                    if now >= SETTLED {
                        self.bounds.elected(&name, now, &mut self.told);
                    }
                    let returns = Some(now + 1 + self.rng.u64(..10_000)).filter(|at| *at < FAULTS_UNTIL);
                    let work = Work {
                        term,
                        session,
                        ends: None,
                        returns: returns.unwrap_or(u64::MAX),
                        told: None,
                        lost: None,
                        open: None,
                        begins: now + 1 + self.rng.u64(..400),
                    };
                    replica.works.insert(name, work);
                }
                Effect::End { name, ending, .. } => self.tell(replica, &name, ending),
                Effect::NotClosed => closed = false,
                _ => {}
            }
        }
        closed
    }

    /// Most works obey soon, some take longer than a lease.
    fn tell(&mut self, replica: &mut Replica, name: &WorkName, ending: Ending) {
        let now = self.now;
        let Some(work) = replica.works.get_mut(name) else { return };
        let patience = if self.rng.u32(..10) > 0 {
            self.rng.u64(..300)
        } else if now < FAULTS_UNTIL {
            5_000
        } else {
            2 * LEASE
        };
        work.ends = Some(work.ends.unwrap_or(now + patience).min(work.returns));
        work.told.get_or_insert(now);
        if ending == Ending::LeaseLost {
            self.told.count("tenures lost");
            work.lost = Some(now);
        }
        self.roll_back(replica.index, work);
    }
}
