//! What goes wrong, and when.

use super::database::Database;
use super::replica::Replica;
use super::world::World;
use super::{FAULTS_UNTIL, Kind, REPLICAS};
use crate::protocol::Term;

/// One thing that goes wrong every now and then.
pub(super) struct Fault {
    pub(super) at: u64,
    /// How often, on average.
    mean: u64,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Crash(usize),
    Freeze(usize),
    /// For a while nothing passes between this replica and the database.
    Partition(usize),
    ShutDown(usize),
    /// Rows disappear under running replicas.
    Meddle,
    /// The database's clock is set.
    SetClock,
}

pub(super) fn faults(kind: Kind, rng: &mut fastrand::Rng) -> Vec<Fault> {
    let mut whats = Vec::new();
    for index in 0..REPLICAS {
        whats.push((8_000, What::Crash(index)));
        whats.push((3_000, What::Freeze(index)));
        whats.push((6_000, What::Partition(index)));
        whats.push((8_000, What::ShutDown(index)));
    }
    match kind {
        Kind::Nothing => {}
        Kind::Operator => whats.push((3_000, What::Meddle)),
        Kind::Clock => whats.push((3_000, What::SetClock)),
    }
    whats.into_iter().map(|(mean, what)| Fault { at: rng.u64(..2 * mean), mean, what }).collect()
}

impl World {
    pub(super) fn go_wrong(&mut self) {
        for index in 0..self.faults.len() {
            let Fault { at, mean, what } = self.faults[index];
            if at <= self.now {
                self.faults[index].at = self.now + 1 + self.rng.u64(..2 * mean);
                self.happen(what);
            }
        }
    }

    fn happen(&mut self, what: What) {
        let now = self.now;
        match what {
            What::Crash(index) => {
                if let Some(replica) = self.replicas[index].take() {
                    self.told.count("crashes");
                    self.die(index, &replica);
                }
            }
            What::Freeze(index) => {
                if let Some(replica) = &mut self.replicas[index] {
                    self.told.count("freezes");
                    replica.frozen_until = now + self.rng.u64(..2_500);
                    replica.disturbed = replica.disturbed.max(replica.frozen_until);
                }
            }
            What::Partition(index) => {
                self.told.count("partitions");
                self.cut_until[index] = (now + self.rng.u64(..3_000)).min(FAULTS_UNTIL);
            }
            What::ShutDown(index) => self.shut_down(index),
            What::Meddle => self.meddle(),
            What::SetClock => {
                let step = 1 + self.rng.u64(..2_500);
                if self.rng.bool() {
                    self.told.count("clock set forwards");
                    self.database.ahead += step;
                } else {
                    self.told.count("clock set backwards");
                    self.database.ahead -= step;
                }
            }
        }
    }

    pub(super) fn shut_down(&mut self, index: usize) {
        let now = self.now;
        if let Some(replica) = &mut self.replicas[index]
            && !replica.is_frozen(now)
            && replica.campaign.shut_down()
        {
            replica.shut_down = Some(now);
            replica.wake = now;
        }
    }

    /// A process is gone. Of its transactions, those are left that run a statement, and in a partition all of them.
    pub(super) fn die(&mut self, index: usize, replica: &Replica) {
        if !self.is_cut(index) {
            for (id, _) in replica.works.values().filter_map(|work| work.open) {
                self.database.fences.cut(id);
            }
        }
        if let Some(wire) = &replica.wire {
            self.keep_stray(index, wire);
        }
        self.starts[index] = self.now + 1 + self.rng.u64(..400);
    }

    /// A lock is waited for, and the next moment will do.
    fn meddle(&mut self) {
        let clock = self.database.clock(self.now);
        let Database { sessions, names, fences, .. } = &mut self.database;
        match self.rng.u32(..4) {
            0 => {
                self.robbed
                    .extend(sessions.iter().filter(|(_, expires)| **expires > clock).map(|(id, _)| *id));
                sessions.clear();
            }
            1 => {
                let gone = names.extract_if(.., |name, _| !fences.lock(name));
                self.erased.extend(gone.map(|(name, (_, term))| (name, Term::new(term))));
            }
            2 => {
                let any = self.rng.usize(..sessions.len().max(1));
                let id = sessions.keys().nth(any).copied();
                if let Some((id, expires)) = id.and_then(|id| sessions.remove_entry(&id))
                    && expires > clock
                {
                    self.robbed.insert(id);
                }
            }
            // Nobody alive misses those.
            _ => sessions.retain(|_, expires| *expires > clock),
        }
        self.told.count("meddled");
    }
}
