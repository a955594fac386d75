//! Every registered work, drained, sorted and checked at start.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::Tenure;
use crate::name::{NameError, WorkName};
use crate::state::{Need, States};
use crate::work::{OnEnd, Registration, Work};

/// A work that can be led.
#[derive(Clone)]
pub(crate) struct Enlisted {
    pub(crate) on_end: OnEnd,
    pub(crate) start: Start,
}

/// How a work is called.
#[derive(Clone)]
pub(crate) enum Start {
    Function(fn(Tenure, &States) -> Work),
    Closure(Arc<dyn Fn(Tenure) -> Work + Send + Sync>),
}

impl Start {
    pub(crate) fn call(&self, tenure: Tenure, states: &States) -> Work {
        match self {
            Self::Function(start) => start(tenure, states),
            Self::Closure(start) => start(tenure),
        }
    }
}

/// A registration from either source, before it is checked.
pub(crate) struct Candidate {
    name: String,
    place: Place,
    needs: Vec<Need>,
    work: Enlisted,
}

impl Candidate {
    pub(crate) fn from_macro(registration: &Registration) -> Self {
        Self {
            name: registration.name.to_owned(),
            place: Place {
                file: registration.file,
                line: registration.line,
                module: Some(registration.module),
            },
            needs: registration.states.iter().map(|need| need()).collect(),
            work: Enlisted { on_end: registration.on_end, start: Start::Function(registration.start) },
        }
    }

    pub(crate) fn from_builder(
        name: String,
        place: &'static Location<'static>,
        start: Arc<dyn Fn(Tenure) -> Work + Send + Sync>,
    ) -> Self {
        Self {
            name,
            place: Place { file: place.file(), line: place.line(), module: None },
            needs: Vec::new(),
            work: Enlisted { on_end: OnEnd::Return, start: Start::Closure(start) },
        }
    }
}

/// What the builder says about names.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) expect: Option<Vec<String>>,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) except: Vec<String>,
}

impl Wishes {
    fn may_lead(&self, name: &str) -> bool {
        let listed = |names: &[String]| names.iter().any(|listed| listed == name);
        self.only.as_deref().is_none_or(listed) && !listed(&self.except)
    }
}

/// The works of this process, each under its name.
pub(crate) type Works = BTreeMap<WorkName, Enlisted>;

/// Checks every candidate against every rule. All faults are reported together, in the order of names and places, so
/// that they do not depend on the linker's.
pub(crate) fn check(
    mut candidates: Vec<Candidate>,
    states: &States,
    wishes: &Wishes,
) -> Result<Works, Vec<Fault>> {
    candidates.sort_by(|a, b| (&a.name, a.place).cmp(&(&b.name, b.place)));
    let mut faults = Vec::new();
    let mut places: BTreeMap<String, Vec<Place>> = BTreeMap::new();
    let mut works = Works::new();

    for candidate in candidates {
        let Candidate { name, place, needs, work } = candidate;
        let led_here = wishes.may_lead(&name);
        for need in needs.iter().filter(|need| led_here && !states.has(need)) {
            faults.push(Fault::MissingState { name: name.clone(), type_name: need.type_name, place });
        }
        match WorkName::new(&name) {
            Ok(valid) => {
                works.insert(valid, work);
            }
            Err(why) => faults.push(Fault::Name { name: name.clone(), why, place }),
        }
        places.entry(name).or_default().push(place);
    }

    for (name, places) in &places {
        if places.len() > 1 {
            faults.push(Fault::Duplicate { name: name.clone(), places: places.clone() });
        }
    }
    if let Some(expected) = &wishes.expect {
        let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
        for name in expected.iter().filter(|name| !places.contains_key(**name)) {
            faults.push(Fault::NotRegistered { name: (*name).to_owned(), asked_by: "expect" });
        }
        for (name, places) in places.iter().filter(|(name, _)| !expected.contains(name.as_str())) {
            faults.push(Fault::NotExpected { name: name.clone(), place: places[0] });
        }
    }
    for (asked_by, names) in
        [("only", wishes.only.as_deref().unwrap_or_default()), ("except", &wishes.except)]
    {
        for name in names.iter().filter(|name| !places.contains_key(*name)) {
            faults.push(Fault::NotRegistered { name: name.clone(), asked_by });
        }
    }
    if !faults.is_empty() {
        faults.sort_by(|a, b| a.name().cmp(b.name()));
        return Err(faults);
    }

    works.retain(|name, _| wishes.may_lead(name.as_str()));
    Ok(works)
}

/// Where a work was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Place {
    /// The source file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// The module of an annotated function.
    pub module: Option<&'static str>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A registration that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Several works under one name.
    Duplicate {
        /// The name.
        name: String,
        /// Every place that registers it.
        places: Vec<Place>,
    },
    /// A name that the column cannot hold.
    Name {
        /// The text given as a name.
        name: String,
        /// The rule it breaks.
        why: NameError,
        /// Where.
        place: Place,
    },
    /// A work asks for a state that the builder was not given.
    MissingState {
        /// The name of the work.
        name: String,
        /// The type in `State<…>`.
        type_name: &'static str,
        /// Where.
        place: Place,
    },
    /// A name that the builder speaks of is not registered.
    NotRegistered {
        /// The name.
        name: String,
        /// The builder's method: `expect`, `only` or `except`.
        asked_by: &'static str,
    },
    /// A registered name that `expect` does not list.
    NotExpected {
        /// The name.
        name: String,
        /// Where.
        place: Place,
    },
}

impl Fault {
    fn name(&self) -> &str {
        match self {
            Self::Duplicate { name, .. }
            | Self::Name { name, .. }
            | Self::MissingState { name, .. }
            | Self::NotRegistered { name, .. }
            | Self::NotExpected { name, .. } => name,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { name, places } => {
                write!(f, "the work `{name}` is registered {} times:", places.len())?;
                for (index, place) in places.iter().enumerate() {
                    write!(f, "{} {place}", if index == 0 { "" } else { "," })?;
                }
                f.write_str("; rename all but one")
            }
            Self::Name { name, why, place } => {
                write!(f, "the name {name:?} of the work at {place} {why}")
            }
            Self::MissingState { name, type_name, place } => write!(
                f,
                "the work `{name}` at {place} takes `State<{type_name}>`; give it with `.state(…)` on the builder"
            ),
            Self::NotRegistered { name, asked_by } => write!(
                f,
                "`{asked_by}` names the work `{name}`, which is not registered; the linker drops a crate that nobody names: \
                 `use that_crate as _;` keeps it"
            ),
            Self::NotExpected { name, place } => {
                write!(f, "the work `{name}` at {place} is registered and `expect` does not name it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, line: u32, needs: Vec<Need>) -> Candidate {
        Candidate {
            name: name.to_owned(),
            place: Place { file: "jobs.rs", line, module: None },
            needs,
            work: Enlisted {
                on_end: OnEnd::Return,
                start: Start::Closure(Arc::new(|_| Work::new(async {}))),
            },
        }
    }

    #[test]
    fn every_fault_is_reported_at_once_and_in_order() {
        use crate::state::FromStates;

        let wishes = Wishes {
            expect: Some(vec!["a".into(), "gone".into(), " bad".into()]),
            only: Some(vec!["a".into(), "typo".into()]),
            except: Vec::new(),
        };
        let candidates = vec![
            candidate("surplus", 9, Vec::new()),
            candidate("a", 7, Vec::new()),
            candidate(" bad", 3, Vec::new()),
            candidate("a", 5, vec![<crate::State<String>>::need()]),
        ];
        let faults = check(candidates, &States::default(), &wishes).map(drop).unwrap_err();
        let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
        assert_eq!(
            lines,
            [
                "the name \" bad\" of the work at jobs.rs:3 begins or ends with a blank",
                "the work `a` at jobs.rs:5 takes `State<alloc::string::String>`; give it with `.state(…)` on the builder",
                "the work `a` is registered 2 times: jobs.rs:5, jobs.rs:7; rename all but one",
                "`expect` names the work `gone`, which is not registered; the linker drops a crate that nobody names: `use that_crate as _;` keeps it",
                "the work `surplus` at jobs.rs:9 is registered and `expect` does not name it",
                "`only` names the work `typo`, which is not registered; the linker drops a crate that nobody names: `use that_crate as _;` keeps it",
            ]
        );
    }

    #[test]
    fn a_state_is_needed_where_its_work_may_be_led() {
        use crate::state::FromStates;

        let candidates =
            || vec![candidate("a", 1, vec![<crate::State<String>>::need()]), candidate("b", 2, vec![])];
        let except = Wishes { except: vec!["a".to_owned()], ..Wishes::default() };
        assert!(check(candidates(), &States::default(), &except).is_ok());
        assert!(check(candidates(), &States::default(), &Wishes::default()).is_err());
    }

    #[test]
    fn a_replica_campaigns_for_what_it_may_lead() {
        let candidates =
            || vec![candidate("a", 1, vec![]), candidate("b", 2, vec![]), candidate("c", 3, vec![])];
        let names = |wishes: &Wishes| -> Vec<String> {
            let works = check(candidates(), &States::default(), wishes).map_err(|_| ()).unwrap();
            works.keys().map(ToString::to_string).collect()
        };
        assert_eq!(names(&Wishes::default()), ["a", "b", "c"]);
        let only = Some(vec!["a".to_owned(), "b".to_owned()]);
        let except = vec!["b".to_owned()];
        assert_eq!(names(&Wishes { only, except, ..Wishes::default() }), ["a"]);
    }
}
