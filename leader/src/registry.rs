//! Every registered work, drained, sorted and checked at start.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::Arc;

use crate::Tenure;
use crate::fault::{Fault, Place};
use crate::name::WorkName;
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
            place: place.into(),
            needs: Vec::new(),
            work: Enlisted { on_end: OnEnd::Return, start: Start::Closure(start) },
        }
    }
}

/// What the builder says about names.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) expect: Option<Mentions>,
    pub(crate) only: Option<Mentions>,
    pub(crate) except: Mentions,
}

impl Wishes {
    fn may_lead(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.lists(name)) && !self.except.lists(name)
    }

    fn may_be_registered(&self, name: &str) -> bool {
        self.expect.as_ref().is_none_or(|expect| expect.lists(name))
    }

    /// Each list that was given, by the name of the builder's method.
    fn lists(&self) -> impl Iterator<Item = (&'static str, &Mentions)> {
        [("expect", self.expect.as_ref()), ("only", self.only.as_ref()), ("except", Some(&self.except))]
            .into_iter()
            .filter_map(|(method, mentions)| Some((method, mentions?)))
    }
}

/// The names that were given to a method of the builder, in one call or several, and the places of these calls.
#[derive(Default)]
pub(crate) struct Mentions(BTreeMap<String, BTreeSet<Place>>);

impl Mentions {
    pub(crate) fn add<N: Into<String>>(
        &mut self,
        names: impl IntoIterator<Item = N>,
        place: &'static Location<'static>,
    ) {
        for name in names {
            self.0.entry(name.into()).or_default().insert(place.into());
        }
    }

    fn lists(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// What is mentioned and no work's name.
    fn unmet(&self, asked_by: &'static str, works: &Works) -> impl Iterator<Item = Fault> {
        self.0.iter().filter(|(name, _)| !works.contains_key(name.as_str())).map(move |(name, places)| {
            let (name, places) = (name.clone(), places.iter().copied().collect());
            match WorkName::new(&name) {
                Ok(_) => Fault::NotRegistered { name, asked_by, places },
                Err(why) => Fault::NotAName { name, why, asked_by, places },
            }
        })
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
        // In a set, as a work may take the same state twice.
        let missing = needs.iter().filter(|need| led_here && !states.has(need)).map(|need| need.type_name);
        for type_name in missing.collect::<BTreeSet<_>>() {
            faults.push(Fault::MissingState { name: name.clone(), type_name, place });
        }
        match WorkName::new(&name) {
            Ok(valid) => {
                works.insert(valid, work);
            }
            Err(why) => faults.push(Fault::Name { name: name.clone(), why, place }),
        }
        places.entry(name).or_default().push(place);
    }

    for (name, places) in places {
        // Only what can be a name can be expected; the rest has its own fault.
        if works.contains_key(name.as_str()) && !wishes.may_be_registered(&name) {
            faults.push(Fault::NotExpected { name: name.clone(), place: places[0] });
        }
        if places.len() > 1 {
            faults.push(Fault::Duplicate { name, places });
        }
    }
    for (asked_by, mentions) in wishes.lists() {
        faults.extend(mentions.unmet(asked_by, &works));
    }
    if !faults.is_empty() {
        faults.sort_by(|a, b| a.name().cmp(b.name()));
        return Err(faults);
    }

    works.retain(|name, _| wishes.may_lead(name.as_str()));
    Ok(works)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::state::FromStates;

    fn candidate(name: &str, line: u32, needs: Vec<Need>) -> Candidate {
        Candidate {
            name: name.to_owned(),
            place: Place { file: "jobs.rs", line, module: Some("jobs") },
            needs,
            work: Enlisted {
                on_end: OnEnd::Return,
                start: Start::Closure(Arc::new(|_| Work::new(async {}))),
            },
        }
    }

    fn mentions(names: &[(&str, u32)]) -> Mentions {
        let mut mentions = Mentions::default();
        for (name, line) in names {
            let place = Place { file: "main.rs", line: *line, module: None };
            mentions.0.entry((*name).to_owned()).or_default().insert(place);
        }
        mentions
    }

    fn refused(candidates: Vec<Candidate>, wishes: &Wishes) -> Vec<Fault> {
        check(candidates, &States::default(), wishes).map(drop).unwrap_err()
    }

    #[test]
    fn every_fault_is_reported_at_once_and_in_order() {
        let wishes = Wishes {
            expect: Some(mentions(&[("a", 1), ("gone", 1), (" bad", 1)])),
            only: Some(mentions(&[("a", 2), ("typo", 3), ("typo", 2), ("typo", 3)])),
            except: mentions(&[("", 4)]),
        };
        let candidates = vec![
            candidate("surplus", 9, Vec::new()),
            candidate("a", 7, Vec::new()),
            candidate(" bad", 3, Vec::new()),
            candidate("bad\n", 4, Vec::new()),
            candidate("a", 5, vec![<crate::State<String>>::need(), <crate::State<String>>::need()]),
        ];
        assert_eq!(
            Error::Registration(refused(candidates, &wishes)).to_string(),
            "9 faults in the registered works:
  the name \"\" in `except` at main.rs:4 cannot be used: a name cannot be empty
  the name \" bad\" of the work at jobs.rs:3 in `jobs` cannot be used: a name cannot begin or end with a blank
  the name \" bad\" in `expect` at main.rs:1 cannot be used: a name cannot begin or end with a blank
  the work `a` at jobs.rs:5 in `jobs` takes `State<alloc::string::String>`; give it with `.state(…)` on the builder
  the work `a` is registered 2 times: jobs.rs:5 in `jobs`, jobs.rs:7 in `jobs`; rename all but one
  the name \"bad\\n\" of the work at jobs.rs:4 in `jobs` cannot be used: a name cannot begin or end with a blank
  `expect` at main.rs:1 names the work `gone`, which is not registered
  the work `surplus` at jobs.rs:9 in `jobs` is registered and `expect` does not name it; add it there, or leave the work out
  `only` at main.rs:2, main.rs:3 names the work `typo`, which is not registered
if that is a surprise: the linker drops a crate that nobody names, and `use that_crate as _;` keeps it"
        );
    }

    #[test]
    fn a_fault_alone_brings_its_hint() {
        let wishes = Wishes { expect: Some(mentions(&[("gone", 1)])), ..Wishes::default() };
        let faults = refused(Vec::new(), &wishes);
        let said = "`expect` at main.rs:1 names the work `gone`, which is not registered; if that is a surprise: \
                    the linker drops a crate that nobody names, and `use that_crate as _;` keeps it";
        assert_eq!(faults[0].to_string(), said);
        assert_eq!(Error::Registration(faults).to_string(), said);
    }

    #[test]
    fn the_order_of_the_linker_does_not_matter() {
        let candidates = |lines: [u32; 3]| lines.map(|line| candidate("a", line, vec![])).into();
        let expected = refused(candidates([1, 2, 3]), &Wishes::default());
        assert_eq!(refused(candidates([3, 1, 2]), &Wishes::default()), expected);
        assert_eq!(refused(candidates([2, 3, 1]), &Wishes::default()), expected);
    }

    #[test]
    fn a_state_is_needed_where_its_work_may_be_led() {
        let candidates =
            || vec![candidate("a", 1, vec![<crate::State<String>>::need()]), candidate("b", 2, vec![])];
        let except = Wishes { except: mentions(&[("a", 1)]), ..Wishes::default() };
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
        let only = Some(mentions(&[("a", 1), ("b", 1), ("b", 2)]));
        let except = mentions(&[("b", 3)]);
        assert_eq!(names(&Wishes { only, except, ..Wishes::default() }), ["a"]);
        let expect = Some(mentions(&[("a", 1), ("b", 1), ("c", 1), ("a", 2)]));
        assert_eq!(names(&Wishes { expect, ..Wishes::default() }), ["a", "b", "c"]);
    }
}
