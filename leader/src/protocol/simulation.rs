//! Many replicas on one database in simulated time, with everything that can go wrong between them: requests and
//! answers that are late or lost, replicas that freeze or crash with a fenced transaction open, an operator who deletes
//! rows. A seed decides it all, and a failing one is named.

mod checks;
mod database;
mod fences;
mod replica;
mod world;

use std::time::Duration;

use self::world::World;
use crate::clock::Moment;
use crate::name::WorkName;
use crate::timings::Timings;

const REPLICAS: usize = 3;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The defaults, ten times as fast.
fn timings() -> Timings {
    Timings {
        lease: ms(1_500),
        renew: ms(200),
        deadline: ms(1_000),
        attempt: None,
        grace: ms(500),
        margin: ms(50),
        campaign: ms(500),
        release: ms(500),
        look: ms(25),
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Moment {
    Moment::after_origin(ms(millis))
}

fn names() -> Vec<WorkName> {
    NAMES.iter().map(|name| WorkName::new(name).expect("a good name")).collect()
}
/// What was put to the test.
#[derive(Debug, Default)]
struct Told {
    pub(super) elections: u64,
    pub(super) losses: u64,
    pub(super) commits: u64,
    /// Transactions that standbys had ended.
    pub(super) ended: u64,
}

fn explore(seeds: std::ops::Range<u64>, operator: bool) {
    let mut total = Told::default();
    for seed in seeds {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, operator);
            world.run();
            world.told
        });
        match run {
            Ok(told) => total.add(&told),
            Err(panic) => {
                eprintln!("seed {seed}, operator {operator}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    // Else nothing was put to the test.
    assert!(total.elections > 2_000 && total.losses > 200, "{total:?}");
    assert!(total.commits > 5_000 && total.ended > 50, "{total:?}");
}

impl Told {
    fn add(&mut self, other: &Self) {
        self.elections += other.elections;
        self.losses += other.losses;
        self.commits += other.commits;
        self.ended += other.ended;
    }
}

#[test]
fn one_leader_whatever_happens_to_messages_and_processes() {
    explore(0..150, false);
}

#[test]
fn everything_recovers_from_an_operator() {
    explore(1_000..1_100, true);
}
