//! Every state that can be reached, nearest first, so that the way to a violation is as short as it can be.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::hash::{BuildHasherDefault, Hasher};

use crate::rules::{Bound, Mutant, Rules};
use crate::state::{Replica, Request, Session, State, Statement};
use crate::steps::{Event, Move, Moves, Properties, Property};

/// What an exploration has found.
pub(crate) struct Explored<const R: usize> {
    pub(crate) violation: Option<Violation>,
    pub(crate) states: Vec<State<R>>,
    events: [u64; Event::COUNT],
    /// From which state to which.
    edges: Vec<(u32, u32)>,
}

pub(crate) struct Violation {
    pub(crate) property: Property,
    /// The steps that lead to it, and how many.
    pub(crate) path: String,
    pub(crate) length: usize,
}

/// Explores until something in `watched` is broken, or to the end.
pub(crate) fn explore<const R: usize>(bound: Bound, mutants: &[Mutant], watched: Properties) -> Explored<R> {
    let rules = Rules::without(mutants);
    let initial = State::initial();
    let mut states = vec![initial];
    let mut parents = vec![0_u32];
    let mut known: HashMap<State<R>, u32, BuildHasherDefault<Mix>> = HashMap::default();
    known.insert(initial, 0);
    let mut events = [0; Event::COUNT];
    let mut edges = Vec::new();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(now) = states.get(at).copied() {
        out.clear();
        Moves { now: &now, bound, rules, out: &mut out }.gather();
        let from = index(at);
        for next in &out {
            if let Some(event) = next.event {
                events[event as usize] += 1;
            }
            if let Some(property) = next.broken.common(watched) {
                let violation = Some(violation(property, next, &states, &parents, at, bound, rules));
                return Explored { violation, states, events, edges };
            }
            let new = index(states.len());
            let canonical = next.next.canonical();
            let to = match known.entry(canonical) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(place) => {
                    place.insert(new);
                    states.push(canonical);
                    parents.push(from);
                    new
                }
            };
            edges.push((from, to));
        }
        at += 1;
    }
    Explored { violation: None, states, events, edges }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("fewer states than that")
}

/// Walks back to the start, and from there again with the names of replicas left as they are.
fn violation<const R: usize>(
    property: Property,
    last: &Move<R>,
    states: &[State<R>],
    parents: &[u32],
    at: usize,
    bound: Bound,
    rules: Rules,
) -> Violation {
    let mut at = at;
    let goal = last.next.canonical();
    let mut way = vec![goal];
    while at > 0 {
        way.push(states[at]);
        at = parents[at] as usize;
    }
    let mut now = State::initial();
    let mut path = String::new();
    let mut out = Vec::new();
    let length = way.len();
    for next in way.into_iter().rev() {
        out.clear();
        Moves { now: &now, bound, rules, out: &mut out }.gather();
        let ends = path.lines().count() + 1 == length;
        let leads_on =
            |step: &&Move<R>| step.next.canonical() == next && (!ends || step.broken.has(property));
        let step = out.iter().find(leads_on).expect("a state has been reached by a step");
        let who = ["A", "B", "C"][step.step.replica];
        let _ = writeln!(path, "  {who} {:?}", step.step.what);
        now = step.next;
    }
    Violation { property, path, length }
}

impl<const R: usize> Explored<R> {
    /// The states from which no state with a leader can be reached, of those that the bound leaves a way to one.
    pub(crate) fn dead_ends(&self, bound: Bound) -> Vec<usize> {
        // The edges by where they lead to.
        let mut starts = vec![0_u32; self.states.len() + 1];
        for (_, to) in &self.edges {
            starts[*to as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut places = starts.clone();
        let mut sources = vec![0_u32; self.edges.len()];
        for (from, to) in &self.edges {
            let place = &mut places[*to as usize];
            sources[*place as usize] = *from;
            *place += 1;
        }
        let led = |state: &State<R>| state.replicas.iter().any(Replica::leads_in_health);
        let mut good: Vec<bool> = self.states.iter().map(led).collect();
        let mut queue: Vec<usize> = (0..good.len()).filter(|at| good[*at]).collect();
        while let Some(at) = queue.pop() {
            for source in &sources[starts[at] as usize..starts[at + 1] as usize] {
                let source = *source as usize;
                if !good[source] {
                    good[source] = true;
                    queue.push(source);
                }
            }
        }
        (0..good.len()).filter(|at| !good[*at] && bound.leaves_a_way(&self.states[*at])).collect()
    }

    /// How many states the bound leaves a way to a leader.
    pub(crate) fn leave_a_way(&self, bound: Bound) -> usize {
        self.states.iter().filter(|state| bound.leaves_a_way(state)).count()
    }

    pub(crate) fn seen(&self, event: Event) -> u64 {
        self.events[event as usize]
    }
}

impl Bound {
    /// Whether another election fits in the bound, and a replica can still campaign for it.
    pub(crate) fn leaves_a_way<const R: usize>(self, state: &State<R>) -> bool {
        let is_claim = |statement: &Statement| matches!(statement.request, Request::Claim(_));
        let claims = state.replicas.iter().flat_map(Replica::statements).filter(is_claim).count();
        usize::from(state.elections) + claims < usize::from(self.elections)
            && state.replicas.iter().any(|replica| {
                let id = replica.session;
                let trusted = !id.is_none() && !replica.overdue && state.session(id) == Session::Alive;
                replica.opened < self.sessions || (trusted && !replica.stopping)
            })
    }
}

/// A hasher for small numbers; nobody chooses them to collide.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
