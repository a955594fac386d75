//! How soon names move once nothing goes wrong but what is probed (promise 3).

use std::collections::BTreeMap;

use super::told::Told;
use super::world::World;
use super::{CAMPAIGN, LEASE, REPLICAS, timings};
use crate::name::WorkName;

/// What a handful of statements takes, with the pauses between two looks that hints ask for. It does not scale with
/// the timings.
const STATEMENTS: u64 = 50;

/// Names without a leader, and how long that may last.
#[derive(Default)]
pub(super) struct Bounds {
    waiting: BTreeMap<WorkName, Waiting>,
    elected: u64,
    probe: u64,
}

struct Waiting {
    why: &'static str,
    since: u64,
    until: u64,
}

impl Bounds {
    /// The work of a name has ended.
    pub(super) fn given_back(&mut self, name: WorkName, now: u64, hints: bool) {
        let (why, within) = if hints {
            ("given back", STATEMENTS)
        } else {
            ("given back, and nobody told", CAMPAIGN + CAMPAIGN / 5 + STATEMENTS)
        };
        self.waiting.insert(name, Waiting { why, since: now, until: now + within });
    }

    /// The process of a leader is gone; whether its last transaction still runs a statement.
    fn crashed(&mut self, name: WorkName, now: u64, runs: bool) {
        let jitter = u64::try_from(timings().expiry_jitter().as_millis()).expect("small");
        let within = LEASE + jitter + STATEMENTS;
        let (why, within) = if runs {
            // I8
            let idle = u64::try_from(timings().fence_idle().as_millis()).expect("small");
            ("crashed in a statement", within + idle)
        } else {
            ("crashed", within)
        };
        self.waiting.insert(name, Waiting { why, since: now, until: now + within });
    }

    pub(super) fn elected(&mut self, name: &WorkName, now: u64, told: &mut Told) {
        self.elected = now;
        let Some(Waiting { why, since, until }) = self.waiting.remove(name) else {
            panic!("{name} has moved at {now} ms although nothing happened");
        };
        assert!(now <= until, "{name}, {why} at {since} ms, has a leader only at {now} ms");
        told.count(why);
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When there is something to do or to find.
    pub(super) fn due(&self) -> Option<u64> {
        self.waiting.values().map(|waiting| waiting.until + 1).chain([self.probe]).min()
    }
}

impl World {
    /// No name waits for a leader for too long.
    pub(super) fn check_bounds(&self) {
        for (name, Waiting { why, since, until }) in &self.bounds.waiting {
            assert!(
                self.now <= *until,
                "{name}, {why} at {since} ms, still has no leader at {} ms (hints: {})",
                self.now,
                self.hints
            );
        }
    }

    /// One thing at a time: a leader shuts down, or crashes, or its work returns.
    pub(super) fn probe(&mut self) {
        if self.now < self.bounds.probe {
            return;
        }
        self.bounds.probe = self.now + 100;
        // Who led a name does not campaign for it for a while.
        let all_campaign = self.now > self.bounds.elected + CAMPAIGN + CAMPAIGN / 5 + 100;
        let runs = |name| self.replicas.iter().flatten().any(|replica| replica.runs(name));
        if !all_campaign || self.replicas.iter().any(Option::is_none) || !self.names.iter().all(runs) {
            return;
        }
        let leaders = (0..REPLICAS)
            .filter(|index| self.replicas[*index].as_ref().is_some_and(|replica| !replica.works.is_empty()));
        let leaders: Vec<usize> = leaders.collect();
        let Some(index) = self.rng.choice(leaders) else { return };
        self.bounds.probe = self.now + self.rng.u64(200..400);
        match self.rng.u32(..3) {
            0 => self.shut_down(index),
            1 => {
                let replica = self.replicas[index].take().expect("it leads");
                self.die(index, &replica);
                for (name, work) in &replica.works {
                    let runs = work.open.is_some_and(|(id, _)| self.database.fences.runs(id));
                    self.bounds.crashed(name.clone(), self.now, runs);
                }
            }
            _ => {
                let replica = self.replicas[index].as_mut();
                let work = replica.and_then(|replica| replica.works.values_mut().next());
                work.expect("it leads").ends = Some(self.now);
            }
        }
    }
}
