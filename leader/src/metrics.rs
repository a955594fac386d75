//! What a replica does, as metrics of the crate `metrics`; whichever recorder the application installs exports them.

use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::event::{Event, EventKind};
use crate::name::{Namespace, WorkName};

const LEADING: &str = "leader_leading";
const ELECTIONS: &str = "leader_elections_total";
const LOSSES: &str = "leader_losses_total";
const STEP_DOWNS: &str = "leader_step_downs_total";
const OVERRUNS: &str = "leader_overruns_total";
const STATEMENTS: &str = "leader_statement_seconds";
const FAILURES: &str = "leader_statement_failures_total";

/// Describes them, and shows the works that this replica stands by for.
pub(crate) fn start<'n>(namespace: &Namespace, names: impl Iterator<Item = &'n WorkName>) {
    describe_gauge!(LEADING, "1 while this replica leads the work, else 0");
    describe_counter!(ELECTIONS, "tenures that began on this replica");
    describe_counter!(LOSSES, "tenures of this replica whose lease was lost");
    describe_counter!(
        STEP_DOWNS,
        "tenures of this replica whose work is gone, by reason and by whether it failed"
    );
    describe_counter!(OVERRUNS, "works that still ran although their time after the loss was over");
    describe_histogram!(
        STATEMENTS,
        metrics::Unit::Seconds,
        "how long the database took to answer the keeper"
    );
    describe_counter!(FAILURES, "statements of the keeper that failed or were given up");
    for name in names {
        gauge!(LEADING, &labels(namespace, name)).set(0);
    }
}

/// Counts what happened to a tenure.
pub(crate) fn event(namespace: &Namespace, event: &Event) {
    let Some(name) = &event.name else { return };
    let mut labels = labels(namespace, name);
    match event.kind {
        EventKind::Elected => {
            counter!(ELECTIONS, &labels).increment(1);
            gauge!(LEADING, &labels).set(1);
        }
        EventKind::Lost => {
            gauge!(LEADING, &labels).set(0);
            counter!(LOSSES, &labels).increment(1);
        }
        EventKind::Overrun => {
            gauge!(LEADING, &labels).set(0);
            counter!(OVERRUNS, &labels).increment(1);
        }
        EventKind::SteppedDown => {
            gauge!(LEADING, &labels).set(0);
            labels.push(("reason", event.reason.clone().unwrap_or_default()));
            labels.push(("failed", event.error.is_some().to_string()));
            counter!(STEP_DOWNS, &labels).increment(1);
        }
        EventKind::Started | EventKind::Stopped => {}
    }
}

/// Times a statement of the keeper.
pub(crate) fn statement(statement: &'static str, took: Duration, good: bool) {
    histogram!(STATEMENTS, "statement" => statement).record(took);
    if !good {
        counter!(FAILURES, "statement" => statement).increment(1);
    }
}

fn labels(namespace: &Namespace, name: &WorkName) -> Vec<(&'static str, String)> {
    vec![("namespace", namespace.as_str().to_owned()), ("name", name.to_string())]
}
