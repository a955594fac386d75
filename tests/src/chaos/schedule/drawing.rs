//! Faults by chance.
//!
//! They come in stretches, in each of which some parts of the deployment are spared: for the gaps between tenures there is a
//! bound only while one replica and the database are well.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use super::{Fault, REPLICAS, Timed, Trouble, Way, Whose};
use crate::chaos::conditions::Route;
use crate::chaos::history::{TIMINGS, WORKS};
use crate::harness::Kind;

pub(super) fn draw(kind: Kind, seed: u64, length: Duration) -> Vec<Timed> {
    Drawing::new(kind, Rng::with_seed(seed)).stretches(length, Drawing::stretch)
}

/// With dice of their own.
pub(super) fn draw_of_route(route: Route, seed: u64, length: Duration) -> Vec<Timed> {
    if route == Route::Direct {
        return Vec::new();
    }
    let drawing = Drawing::new(Kind::Postgres, Rng::with_seed(!seed));
    drawing.stretches(length, |drawing, from, until| drawing.of_route(route, from, until))
}

struct Drawing {
    kind: Kind,
    dice: Rng,
    /// What is left of each.
    decks: HashMap<&'static str, Vec<u32>>,
    /// What the present fault took from them.
    dealt: Vec<(&'static str, u32)>,
    faults: Vec<Timed>,
}

impl Drawing {
    fn new(kind: Kind, dice: Rng) -> Self {
        Self { kind, dice, decks: HashMap::new(), dealt: Vec::new(), faults: Vec::new() }
    }

    fn stretches(mut self, length: Duration, draw: impl Fn(&mut Self, Duration, Duration)) -> Vec<Timed> {
        let mut from = Duration::ZERO;
        while from < length {
            let until = (from + self.between(8.0..18.0)).min(length);
            draw(&mut self, from, until);
            from = until;
        }
        self.faults
    }

    fn stretch(&mut self, from: Duration, until: Duration) {
        if self.kind != Kind::Sqlite && self.chance(0.2) {
            return self.failures(from, until);
        }
        // One more than there are: sometimes nobody is spared.
        let spared = self.dice.usize(0..=REPLICAS);
        for replica in (0..REPLICAS).filter(|replica| *replica != spared) {
            if self.chance(0.8) {
                self.fill(from, until, |drawing| drawing.of_process(replica));
            }
            if self.kind != Kind::Sqlite && self.chance(0.7) {
                self.link(replica, from, until);
            }
        }
        if self.chance(0.5) {
            return;
        }
        if self.chance(0.6) {
            match self.kind {
                Kind::Sqlite => self.fill(from, until, Self::of_file),
                _ => self.fill(from, until, Self::of_server),
            }
        }
        if self.kind != Kind::Sqlite && self.chance(0.4) {
            self.fill(from, until, Self::of_backends);
        }
        if self.kind != Kind::Sqlite && self.chance(0.3) {
            self.fill(from, until, Self::of_rows);
        }
        if self.chance(0.5) {
            self.fill(from, until, Self::of_operator);
        }
    }

    /// Nothing but queries that fail in passing, everybody's: no lease is lost by that.
    fn failures(&mut self, from: Duration, until: Duration) {
        for replica in 0..REPLICAS {
            self.fill(from, until, |drawing| {
                let trouble = drawing.failing();
                (drawing.between(3.0..8.0), Fault::Link { replica, whose: Whose::All, trouble })
            });
        }
    }

    /// Draws one fault after the other, with pauses.
    fn fill(&mut self, from: Duration, until: Duration, draw: impl Fn(&mut Self) -> (Duration, Fault)) {
        let mut at = from + self.between(0.2..3.0);
        loop {
            self.dealt.clear();
            let (length, fault) = draw(self);
            if at + length > until {
                // Its turn is still to come.
                for (deck, card) in self.dealt.drain(..) {
                    self.decks.entry(deck).or_default().push(card);
                }
                return;
            }
            self.faults.push(Timed { at, length, fault });
            at += length + self.between(0.5..4.0);
        }
    }

    /// At most one of the pooler, and one of each replica: what else breaks, breaks by the pooler then.
    fn of_route(&mut self, route: Route, from: Duration, until: Duration) {
        let within = from.as_secs_f64()..until.as_secs_f64();
        if self.chance(0.4) {
            let (length, fault) = match self.deal("pooler", 2) {
                0 => (self.between(0.1..2.0), Fault::KillPooler),
                _ => (self.between(0.1..3.5), Fault::FreezePooler),
            };
            let at = self.between(within.clone());
            if at + length <= until {
                self.faults.push(Timed { at, length, fault });
            }
        }
        for replica in (0..REPLICAS).filter(|_| route == Route::Changing) {
            if self.chance(0.5) {
                let at = self.between(within.clone());
                self.faults.push(Timed { at, length: Duration::ZERO, fault: Fault::Reroute { replica } });
            }
        }
    }

    fn of_process(&mut self, replica: usize) -> (Duration, Fault) {
        let stubborn = self.chance(0.4);
        match self.deal("process", 7) {
            0 => (self.between(0.1..2.0), Fault::Kill { replica, stubborn }),
            1 | 2 => (self.between(1.0..3.0), Fault::Term { replica, stubborn }),
            kind => {
                let freeze = match kind {
                    3 => 0.05..TIMINGS.renew.as_secs_f64(),
                    4 => TIMINGS.deadline.as_secs_f64()..TIMINGS.lease.as_secs_f64(),
                    _ => TIMINGS.lease.as_secs_f64()..2.0 * TIMINGS.lease.as_secs_f64(),
                };
                (self.between(freeze), Fault::Freeze { replica })
            }
        }
    }

    fn link(&mut self, replica: usize, from: Duration, until: Duration) {
        match self.dice.u32(0..4) {
            0 => self.fill(from, until, |drawing| drawing.of_link(replica, Whose::All)),
            1 => {
                self.fill(from, until, |drawing| drawing.of_link(replica, Whose::Keeper));
                self.fill(from, until, |drawing| drawing.of_link(replica, Whose::Works));
            }
            _ => self.stragglers(replica, from, until),
        }
    }

    fn of_link(&mut self, replica: usize, whose: Whose) -> (Duration, Fault) {
        let way = match self.dice.u32(0..3) {
            0 => Way::ToServer,
            1 => Way::FromServer,
            _ => Way::Both,
        };
        let (length, trouble) = match self.deal("link", 7) {
            0 => (self.between(0.5..5.0), Trouble::Late { by: self.between(0.01..2.5), way }),
            1 => (self.between(0.2..6.0), Trouble::Held { way }),
            2 => (self.between(0.2..6.0), Trouble::Swallowed { way }),
            3 => (self.between(0.5..5.0), Trouble::Shuffled { by: self.between(0.5..3.0) }),
            4 => (self.between(0.0..3.0), Trouble::Cut),
            _ => (self.between(2.0..6.0), self.failing()),
        };
        (length, Fault::Link { replica, whose, trouble })
    }

    /// In passing, so that whoever tries again succeeds.
    fn failing(&mut self) -> Trouble {
        let code = match (self.kind, self.deal("code", 3)) {
            (Kind::Postgres, 0) => "40001",
            (Kind::Postgres, 1) => "40P01",
            (Kind::Postgres, _) => "55P03",
            (_, 0) => "1213",
            (_, 1) => "1205",
            (_, _) => "1020",
        };
        Trouble::Failing { code, every: self.dice.usize(2..=3) }
    }

    /// What a fence is for: the keeper is cut off, and shortly before the work hears of it, its commit is sent and
    /// takes so long that a successor is there before.
    fn stragglers(&mut self, replica: usize, from: Duration, until: Duration) {
        let mut at = from + self.between(0.2..2.0);
        loop {
            let after = self.between(0.8..1.6);
            let lengths = [self.between(3.5..5.0), self.between(0.3..1.5)];
            let by = self.between(1.7..2.8);
            if at + lengths[0].max(after + lengths[1]) > until {
                return;
            }
            for (whose, at, length, trouble) in [
                (Whose::Keeper, at, lengths[0], Trouble::Swallowed { way: Way::Both }),
                (Whose::Works, at + after, lengths[1], Trouble::Late { by, way: Way::ToServer }),
            ] {
                self.faults.push(Timed { at, length, fault: Fault::Link { replica, whose, trouble } });
            }
            at += lengths[0].max(after + lengths[1]) + self.between(1.0..4.0);
        }
    }

    fn of_server(&mut self) -> (Duration, Fault) {
        // MariaDB has no standby here.
        let all = if self.kind == Kind::Postgres { 6 } else { 5 };
        match self.deal("server", all) {
            0 => (self.between(0.1..3.0), Fault::Restart { power_cut: true }),
            1 => (self.between(0.1..3.0), Fault::Restart { power_cut: false }),
            2 => (self.between(0.1..1.5), Fault::FreezeServer),
            3 => (self.between(1.5..5.0), Fault::FreezeServer),
            4 => (self.between(0.5..4.0), Fault::ReadOnly),
            _ => (self.between(0.0..4.0), Fault::FailOver),
        }
    }

    fn of_file(&mut self) -> (Duration, Fault) {
        (self.between(0.5..3.0), Fault::Lock)
    }

    fn of_backends(&mut self) -> (Duration, Fault) {
        (Duration::ZERO, Fault::KillBackends { count: self.dice.u32(1..=4) })
    }

    fn of_rows(&mut self) -> (Duration, Fault) {
        let table = if self.deal("rows", 2) == 0 { "leader_sessions" } else { "leader_names" };
        (self.between(0.3..4.0), Fault::LockRows { table })
    }

    fn of_operator(&mut self) -> (Duration, Fault) {
        let fault = match self.deal("operator", 8) {
            0 => Fault::EmptyTables,
            1 | 2 => Fault::DeleteName { name: WORKS[self.dice.usize(0..WORKS.len())].0 },
            3 | 4 => Fault::DeleteSessions { replica: self.dice.usize(0..REPLICAS) },
            5 => Fault::DropTables { recreate: false },
            6 => Fault::DropTables { recreate: true },
            _ => return (self.between(0.5..8.0), Fault::RestoreTables),
        };
        (Duration::ZERO, fault)
    }

    /// One of the cards of a deck: each comes before one comes again.
    fn deal(&mut self, deck: &'static str, cards: u32) -> u32 {
        let left = self.decks.entry(deck).or_default();
        if left.is_empty() {
            left.extend(0..cards);
            self.dice.shuffle(left);
        }
        let card = left.pop().expect("cards in a deck");
        self.dealt.push((deck, card));
        card
    }

    fn chance(&mut self, of: f64) -> bool {
        self.dice.f64() < of
    }

    fn between(&mut self, seconds: Range<f64>) -> Duration {
        let seconds = seconds.start + self.dice.f64() * (seconds.end - seconds.start);
        // Whole milliseconds are easier to read, and to write down.
        Duration::from_secs_f64((seconds * 1_000.0).round() / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Lane, Schedule};
    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    #[test]
    fn a_seed_makes_one_schedule() {
        for kind in Kind::ALL {
            let random = |seed| Schedule::random(kind, Route::Direct, seed, LONG);
            assert_eq!(random(7), random(7));
            assert_ne!(random(7), random(8));
        }
    }

    #[test]
    fn a_pooler_adds_its_own_faults_and_leaves_the_others() {
        let random = |route| Schedule::random(Kind::Postgres, route, 7, LONG);
        for (route, own) in [
            (Route::Pooled, &["pooler frozen", "pooler killed"][..]),
            (Route::Changing, &["pooler frozen", "pooler killed", "route changed"]),
        ] {
            let (of_route, others): (Vec<_>, _) = random(route)
                .faults
                .into_iter()
                .partition(|timed| matches!(timed.fault.lane(), Lane::Pooler | Lane::Route(_)));
            assert_eq!(others, random(Route::Direct).faults);
            assert!(of_route.iter().all(|timed| timed.at + timed.length <= LONG));
            let labels: BTreeSet<_> = of_route.iter().map(Timed::label).collect();
            assert_eq!(labels.iter().map(String::as_str).collect::<Vec<_>>(), own);
        }
    }

    #[test]
    fn every_fault_comes_and_is_over_in_time() {
        let labels = |kind| -> BTreeSet<String> {
            let schedule = Schedule::random(kind, Route::Direct, 1, LONG);
            assert!(schedule.faults.iter().all(|timed| timed.at + timed.length <= LONG));
            schedule.faults.iter().map(Timed::label).collect()
        };
        let of_file = labels(Kind::Sqlite);
        for label in ["kill -9", "SIGTERM", "frozen past the lease", "file locked", "tables emptied"] {
            assert!(of_file.contains(label), "{label} is not in {of_file:?}");
        }
        let of_server = labels(Kind::Postgres);
        // Three classes of freezes, two signals, six of the operator, five of the server, its connections, its rows; and
        // for each of three groups of connections three troubles in three ways, three errors, cuts, and another order.
        assert_eq!(of_server.len(), 3 + 2 + 6 + 5 + 1 + 1 + 3 * (3 * 3 + 3 + 2), "{of_server:?}");
        assert!(!labels(Kind::MySql).contains("failover"));
    }

    #[test]
    fn faults_of_a_lane_do_not_overlap() {
        for kind in Kind::ALL {
            for (lane, faults) in Schedule::random(kind, Route::Changing, 3, LONG).lanes() {
                for (one, next) in faults.iter().zip(&faults[1..]) {
                    assert!(one.at + one.length <= next.at, "{lane:?}: {one:?}, {next:?}");
                }
            }
        }
    }
}
