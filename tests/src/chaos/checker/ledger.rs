//! What was written, by whom and in which order.
//!
//! The order of ids is the order of terms, and no more than that: a row takes its id inside its transaction, after the
//! fence has taken its share lock. A claim skips the name until that transaction has ended, and the rows of the next term
//! take their ids after the claim. Whether the lock does its work cannot be seen by that: a transaction that inserted
//! early and committed late has an early id. Therefore somebody looks at the ledger all the time. A row that he
//! did not see when a newer tenure had begun, and did see later, was committed under a lost lease. There is no excuse
//! for that: freezes, dead connections and operators do not lift the lock.

use std::collections::{BTreeMap, HashMap};

use super::{Breach, End, Tenure, Violation, around};
use crate::chaos::history::{History, Row, Span};

pub(super) fn check(history: &History, tenures: &[Tenure], violations: &mut Vec<Violation>) {
    let by_term: HashMap<(&str, i64), &Tenure> =
        tenures.iter().map(|tenure| ((tenure.name.as_str(), tenure.term), tenure)).collect();
    let mut elections: HashMap<&str, Vec<(i64, i64)>> = HashMap::new();
    for tenure in tenures {
        elections.entry(&tenure.name).or_default().push((tenure.term, tenure.span.from));
    }
    let mut found = |breach, row: &Row, about: &str| {
        violations.push(Violation {
            breach,
            around: around(row.row.at_ms),
            about: format!("{about}: {row:?}"),
        });
    };
    for row in &history.vanished {
        if !may_vanish(history, row) {
            found(Breach::LostRow, row, "it was there, and is not");
        }
    }
    let mut newest: BTreeMap<&str, &Row> = BTreeMap::new();
    for row in &history.rows {
        let (name, term) = (row.row.name.as_str(), row.row.term);
        match by_term.get(&(name, term)) {
            None => found(Breach::Row, row, "nobody was elected to this term"),
            Some(tenure) if !explains(history, tenure, row) => {
                found(Breach::Row, row, &format!("not of {}", tenure.describe(history)));
            }
            Some(_) => {}
        }
        let successor = elections
            .get(name)
            .into_iter()
            .flatten()
            .find(|(newer, elected)| *newer > term && row.unseen.is_some_and(|unseen| *elected < unseen));
        if let Some((newer, elected)) = successor {
            found(Breach::StaleRow, row, &format!("term {newer} had begun at {elected}"));
        }
        match newest.get(name) {
            Some(before) if before.row.term > term => {
                found(Breach::StaleRow, row, &format!("it comes after {before:?}"));
                continue;
            }
            Some(before) if before.row.term == term && before.row.seq >= row.row.seq => {
                found(Breach::Row, row, &format!("not in the order they were written in, after {before:?}"));
            }
            _ => {}
        }
        newest.insert(name, row);
    }
}

fn explains(history: &History, tenure: &Tenure, row: &Row) -> bool {
    let process = &history.processes[tenure.process];
    let until = if tenure.end == End::SteppedDown { tenure.span.until } else { process.alive.until };
    process.instance == row.row.instance && (tenure.span.from..=until).contains(&row.row.at_ms)
}

/// It was committed while a standby missed what was, and that one was promoted.
fn may_vanish(history: &History, row: &Row) -> bool {
    let mut missed = history.disturbances.iter().filter_map(|disturbance| disturbance.missed);
    missed.any(|missed| missed.meets(Span { from: row.row.at_ms, until: row.seen }))
}
