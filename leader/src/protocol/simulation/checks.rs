//! What must be true after each step, and in the end.

use std::collections::BTreeSet;

use super::names;
use super::replica::Work;
use super::world::World;

impl World {
    /// Promise 1 and 4: whoever is not frozen runs a name alone.
    pub(super) fn check(&self) {
        if self.operator {
            // Who deletes a live session lets a second leader in until the first has heard of it.
            return;
        }
        let mut running = BTreeSet::new();
        for replica in self.replicas.iter().flatten().filter(|replica| self.now >= replica.frozen_until) {
            for name in replica.works.keys() {
                assert!(running.insert(name), "two replicas run {name} at {} ms", self.now);
            }
        }
    }

    /// I6: once nothing goes wrong any more, every name has one leader that everybody agrees on.
    pub(super) fn check_alive(&self) {
        for name in names() {
            let leaders: Vec<&Work> =
                self.replicas.iter().flatten().filter_map(|replica| replica.works.get(&name)).collect();
            let [leader] = leaders.as_slice() else { panic!("{} leaders of {name}", leaders.len()) };
            let row = self.database.names.get(&name).expect("the row is back");
            assert_eq!((row.0, row.1), (Some(leader.session), leader.term.get()));
        }
        for replica in self.replicas.iter().flatten() {
            let a_second = replica.statements / 30;
            assert!(a_second < 40, "{a_second} statements a second (replica of seed {})", replica.seed);
        }
    }
}
