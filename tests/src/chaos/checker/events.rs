//! The tenures that the events of each process tell of, and events that do not fit each other.

use super::{Breach, End, Tenure, Violation, around};
use crate::chaos::history::{History, Process, Span};
use crate::harness::Event;

/// All tenures of all processes.
pub(super) fn tenures(history: &History, violations: &mut Vec<Violation>) -> Vec<Tenure> {
    let mut tenures = Vec::new();
    for (index, process) in history.processes.iter().enumerate() {
        let mut reader = Reader { process, index, running: Vec::new(), over: Vec::new(), violations };
        for event in &process.events {
            reader.read(event);
        }
        reader.end();
        tenures.append(&mut reader.over);
    }
    tenures
}

struct Reader<'a> {
    process: &'a Process,
    index: usize,
    running: Vec<Tenure>,
    over: Vec<Tenure>,
    violations: &'a mut Vec<Violation>,
}

impl Reader<'_> {
    fn read(&mut self, event: &Event) {
        match event.event.as_str() {
            "started" => {}
            "stopped" => {
                if !self.running.is_empty() {
                    self.wrong(event, "its works are not gone");
                }
            }
            "elected" => self.elected(event),
            "lost" => self.lost(event),
            "stepped_down" => self.ended(event, End::SteppedDown),
            "overrun" => self.ended(event, End::Overrun),
            _ => self.wrong(event, "nobody knows it"),
        }
    }

    /// I4: not while work of its own still runs under the name.
    fn elected(&mut self, event: &Event) {
        let (Some(name), Some(term)) = (event.name.clone(), event.term) else {
            return self.wrong(event, "whose?");
        };
        if self.running.iter().any(|tenure| tenure.name == name) {
            self.wrong(event, "its own work still runs");
        }
        let span = Span { from: event.at_ms, until: event.at_ms };
        self.running.push(Tenure { process: self.index, name, term, span, lost: None, end: End::Death });
    }

    fn lost(&mut self, event: &Event) {
        if let Some(tenure) = self.running.iter_mut().find(|tenure| is_of(tenure, event)) {
            if tenure.lost.replace(event.at_ms).is_none() {
                return;
            }
        } else if self.over.iter().any(|tenure| is_of(tenure, event) && tenure.end == End::Overrun) {
            // The last words of a process come from two threads.
            return;
        }
        self.wrong(event, "it was told before, or runs no longer");
    }

    fn ended(&mut self, event: &Event, end: End) {
        let Some(place) = self.running.iter().position(|tenure| is_of(tenure, event)) else {
            return self.wrong(event, "it does not run");
        };
        let mut tenure = self.running.remove(place);
        if end == End::SteppedDown && event.reason.as_deref() == Some("lease lost") && tenure.lost.is_none() {
            self.wrong(event, "the loss was not told before");
        }
        tenure.span.until = event.at_ms;
        tenure.end = end;
        self.over.push(tenure);
    }

    fn end(&mut self) {
        for mut tenure in std::mem::take(&mut self.running) {
            if self.process.status == Some(0) {
                let about = format!("{} ended gracefully and {} did not", self.process.log, tenure.name);
                self.violations.push(Violation {
                    breach: Breach::Events,
                    around: around(self.process.end()),
                    about,
                });
            }
            tenure.span.until = self.process.end();
            self.over.push(tenure);
        }
    }

    fn wrong(&mut self, event: &Event, why: &str) {
        let about = format!("{}: {event:?}: {why}", self.process.log);
        self.violations.push(Violation { breach: Breach::Events, around: around(event.at_ms), about });
    }
}

fn is_of(tenure: &Tenure, event: &Event) -> bool {
    event.name.as_ref() == Some(&tenure.name) && event.term == Some(tenure.term)
}
