//! What the cases in `pass/` ask: which works of this program were registered.

use leader::__private::{OnEnd, WORKS};

/// Name, end and number of states of every registered work, by name.
pub fn registered() -> Vec<(&'static str, OnEnd, usize)> {
    let mut works: Vec<_> = WORKS.iter().map(|work| (work.name, work.on_end, work.states.len())).collect();
    works.sort_by_key(|work| work.0);
    works
}
