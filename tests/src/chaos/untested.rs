//! A run in which nothing happened has shown nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::checker::Verdict;
use super::conditions::Route;
use super::history::{History, WORKS};
use super::schedule::{Fault, Schedule, Timed};

/// What a run has not tested although it should have.
pub(super) fn untested(history: &History, verdict: &Verdict) -> Vec<String> {
    let mut missing = Vec::new();
    if history.came().next().is_none() {
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
    missing.extend_from_slice(&history.unmet);
    if history.conditions.route == Route::Pooled && history.pooled == 0 {
        missing.push("a transaction by PgBouncer".to_owned());
    }
    missing.extend(never_met(history));
    missing.extend(never_came(history));
    missing
}

/// Troubles of links that lasted for some time, and no message came by.
fn never_met(history: &History) -> impl Iterator<Item = String> {
    const SOME_TIME: i64 = 10_000;

    let mut troubles: BTreeMap<&str, (i64, bool)> = BTreeMap::new();
    for disturbance in &history.disturbances {
        if let Fault::Link { trouble, .. } = disturbance.timed.fault {
            let (lasted, met) = troubles.entry(trouble.name()).or_default();
            *lasted += disturbance.span.length();
            *met |= disturbance.came;
        }
    }
    let unmet = troubles.into_iter().filter(|(_, (lasted, met))| *lasted > SOME_TIME && !met);
    unmet.map(|(name, _)| format!("a message that is {name}"))
}

/// Kinds of faults that there are for this database, and that did not come in a long run.
fn never_came(history: &History) -> Vec<String> {
    const LONG: i64 = 10 * 60 * 1_000;
    const HOURS: Duration = Duration::from_hours(3);

    if history.watched.length() < LONG {
        return Vec::new();
    }
    let all = Schedule::random(history.kind, history.conditions.route, 0, HOURS);
    let all: BTreeSet<_> = all.faults.iter().map(Timed::class).collect();
    let came = history.came().map(Timed::class).collect();
    all.difference(&came).map(|class| format!("the fault `{class}`")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::chaos::conditions::Conditions;
    use crate::chaos::history::{Disturbance, Row, Span};
    use crate::chaos::schedule::{Trouble, Whose};
    use crate::harness::Kind;
    use crate::harness::database::LedgerRow;

    const MINUTE: i64 = 60_000;

    fn history(kind: Kind, length: i64) -> History {
        let row = |(id, name): (i64, &str)| {
            let row = LedgerRow { name: name.to_owned(), term: 1, instance: String::new(), seq: 0, at_ms: 0 };
            Row { id, row, unseen: None, seen: 0 }
        };
        History {
            kind,
            conditions: Conditions { isolation: None, route: Route::Direct },
            unmet: Vec::new(),
            pooled: 0,
            watched: Span { from: 0, until: length },
            processes: Vec::new(),
            disturbances: Vec::new(),
            stalls: Vec::new(),
            met: BTreeMap::new(),
            rows: [(1, "ledger"), (2, "slow-ledger")].map(row).into(),
            vanished: Vec::new(),
        }
    }

    /// A minute in which nothing is missing.
    fn minute() -> History {
        let mut history = history(Kind::Postgres, MINUTE);
        history.disturbances.push(lasting(0, Fault::EmptyTables));
        history
    }

    fn lasting(length: i64, fault: Fault) -> Disturbance {
        done(Timed { at: Duration::ZERO, length: Duration::ZERO, fault }, length)
    }

    fn done(timed: Timed, length: i64) -> Disturbance {
        Disturbance { timed, span: Span { from: 0, until: length }, came: true, missed: None }
    }

    fn verdict() -> Verdict {
        Verdict {
            tenures: WORKS.iter().map(|(name, _)| ((*name).to_owned(), 1)).collect(),
            ..Verdict::default()
        }
    }

    #[test]
    fn something_happened() {
        assert_eq!(untested(&minute(), &verdict()), [""; 0]);
        let mut idle = verdict();
        idle.tenures.remove("returns");
        assert_eq!(untested(&minute(), &idle), ["a tenure of returns"]);
        let mut empty = minute();
        empty.rows.pop();
        assert_eq!(untested(&empty, &verdict()), ["a row of slow-ledger"]);
        let mut in_vain = minute();
        in_vain.disturbances[0].came = false;
        assert_eq!(untested(&in_vain, &verdict()), ["a fault"]);
        assert_eq!(untested(&history(Kind::Postgres, MINUTE), &verdict()), ["a fault"]);
    }

    #[test]
    fn a_trouble_of_a_link_met_messages() {
        let link = |length, came| {
            let trouble = Trouble::Failing { code: "40001", every: 2 };
            let fault = Fault::Link { replica: 0, whose: Whose::All, trouble };
            Disturbance { came, ..lasting(length, fault) }
        };
        let untested = |links: &[Disturbance]| {
            let mut history = minute();
            history.disturbances.extend_from_slice(links);
            untested(&history, &verdict())
        };
        assert_eq!(untested(&[link(6_000, false), link(6_000, false)]), ["a message that is 40001"]);
        assert_eq!(untested(&[link(6_000, false), link(6_000, true)]), [""; 0]);
        assert_eq!(untested(&[link(6_000, false)]), [""; 0]);
    }

    #[test]
    fn conditions_were_there() {
        let mut history = minute();
        history.conditions.route = Route::Pooled;
        assert_eq!(untested(&history, &verdict()), ["a transaction by PgBouncer"]);
        history.pooled = 1;
        assert_eq!(untested(&history, &verdict()), [""; 0]);
        history.unmet.push("serializable".to_owned());
        assert_eq!(untested(&history, &verdict()), ["serializable"]);
    }

    /// If all that is drawn takes effect.
    #[test]
    fn every_kind_of_fault_comes_in_ten_minutes() {
        let ten = 10 * MINUTE;
        let routes = [(Kind::Postgres, Route::Pooled), (Kind::Postgres, Route::Changing)];
        for (kind, route) in Kind::ALL.map(|kind| (kind, Route::Direct)).into_iter().chain(routes) {
            for seed in 0..20 {
                let mut all = history(kind, ten);
                (all.conditions.route, all.pooled) = (route, 1);
                let schedule = Schedule::random(kind, route, seed, Duration::from_mins(10));
                all.disturbances.extend(schedule.faults.into_iter().map(|timed| done(timed, 0)));
                assert_eq!(untested(&all, &verdict()), [""; 0], "{kind}, seed {seed}");
                for disturbance in &mut all.disturbances {
                    disturbance.came = disturbance.timed.class() != "tables dropped";
                }
                assert_eq!(untested(&all, &verdict()), ["the fault `tables dropped`"], "{kind}, seed {seed}");
            }
        }
    }
}
