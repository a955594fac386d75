//! A run in which nothing happened has shown nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use super::checker::Verdict;
use super::history::{History, WORKS};
use super::schedule::{Fault, Schedule, Timed};

/// What a run has not tested although it should have.
pub(super) fn untested(schedule: &Schedule, history: &History, verdict: &Verdict) -> Vec<String> {
    let mut missing = Vec::new();
    if schedule.faults.is_empty() {
        missing.push("a fault".to_owned());
    }
    for (name, kind) in WORKS {
        if !verdict.tenures.contains_key(name) {
            missing.push(format!("a tenure of {name}"));
        }
        if kind.ends_with("ledger") && !history.rows.iter().any(|row| row.row.name == name) {
            missing.push(format!("a row of {name}"));
        }
    }
    missing.extend(never_met(schedule, history));
    missing.extend(never_drawn(schedule, history));
    missing
}

/// Troubles of links that were due for some time, and no message came by.
fn never_met<'a>(schedule: &'a Schedule, history: &'a History) -> impl Iterator<Item = String> + 'a {
    const SOME_TIME: Duration = Duration::from_secs(10);

    let due = |name: &str| -> Duration {
        let of_it = schedule
            .faults
            .iter()
            .filter(|timed| matches!(timed.fault, Fault::Link { trouble, .. } if trouble.name() == name));
        of_it.map(|timed| timed.length).sum()
    };
    let names: BTreeSet<&str> = schedule.faults.iter().filter_map(trouble).collect();
    let unmet =
        names.into_iter().filter(move |name| due(name) > SOME_TIME && !history.met.contains_key(*name));
    unmet.map(|name| format!("a message that is {name}"))
}

fn trouble(timed: &Timed) -> Option<&'static str> {
    match timed.fault {
        Fault::Link { trouble, .. } => Some(trouble.name()),
        _ => None,
    }
}

/// Kinds of faults that there are for this database, and that did not come in a long run.
fn never_drawn(schedule: &Schedule, history: &History) -> Vec<String> {
    const LONG: i64 = 10 * 60 * 1_000;
    const HOURS: Duration = Duration::from_hours(3);

    if history.watched.length() < LONG {
        return Vec::new();
    }
    let classes =
        |schedule: &Schedule| -> BTreeSet<String> { schedule.faults.iter().map(Timed::class).collect() };
    let all = classes(&Schedule::random(history.kind, 0, HOURS));
    all.difference(&classes(schedule)).map(|class| format!("the fault `{class}`")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::chaos::history::{Row, Span};
    use crate::chaos::schedule::{Trouble, Whose};
    use crate::harness::Kind;
    use crate::harness::database::LedgerRow;

    const MINUTES: i64 = 60_000;

    fn history(minutes: i64) -> History {
        let row = |(id, name): (i64, &str)| {
            let row = LedgerRow { name: name.to_owned(), term: 1, instance: String::new(), seq: 0, at_ms: 0 };
            Row { id, row, unseen: None }
        };
        History {
            kind: Kind::Postgres,
            watched: Span { from: 0, until: minutes * MINUTES },
            processes: Vec::new(),
            disturbances: Vec::new(),
            stalls: Vec::new(),
            met: BTreeMap::new(),
            rows: [(1, "ledger"), (2, "slow-ledger")].map(row).into(),
            vanished: Vec::new(),
        }
    }

    fn verdict() -> Verdict {
        Verdict {
            tenures: WORKS.iter().map(|(name, _)| ((*name).to_owned(), 1)).collect(),
            ..Verdict::default()
        }
    }

    fn lasting(length: Duration, fault: Fault) -> Schedule {
        Schedule { faults: vec![Timed { at: Duration::ZERO, length, fault }] }
    }

    #[test]
    fn something_happened() {
        let schedule = lasting(Duration::ZERO, Fault::EmptyTables);
        assert_eq!(untested(&schedule, &history(1), &verdict()), [""; 0]);
        let none = Schedule { faults: Vec::new() };
        assert_eq!(untested(&none, &history(1), &verdict()), ["a fault"]);
        let mut idle = verdict();
        idle.tenures.remove("returns");
        assert_eq!(untested(&schedule, &history(1), &idle), ["a tenure of returns"]);
        let mut empty = history(1);
        empty.rows.pop();
        assert_eq!(untested(&schedule, &empty, &verdict()), ["a row of slow-ledger"]);
    }

    #[test]
    fn a_trouble_of_a_link_met_messages() {
        let trouble = Trouble::Failing { code: "40001", every: 2 };
        let fault = Fault::Link { replica: 0, whose: Whose::All, trouble };
        let long = lasting(Duration::from_secs(11), fault.clone());
        assert_eq!(untested(&long, &history(1), &verdict()), ["a message that is 40001"]);
        let mut met = history(1);
        met.met.insert("40001".to_owned(), 1);
        assert_eq!(untested(&long, &met, &verdict()), [""; 0]);
        assert_eq!(untested(&lasting(Duration::from_secs(1), fault), &history(1), &verdict()), [""; 0]);
    }

    #[test]
    fn every_kind_of_fault_comes_in_ten_minutes() {
        let mut met = history(10);
        let ten = Duration::from_mins(10);
        let seeds: Vec<_> = (0..20).map(|seed| Schedule::random(Kind::Postgres, seed, ten)).collect();
        for schedule in &seeds {
            met.met.extend(schedule.faults.iter().filter_map(trouble).map(|name| (name.to_owned(), 1)));
            assert_eq!(untested(schedule, &met, &verdict()), [""; 0]);
        }
        let mut without = seeds[0].clone();
        without.faults.retain(|timed| timed.fault != Fault::FailOver);
        assert_eq!(untested(&without, &met, &verdict()), ["the fault `failover`"]);
    }
}
