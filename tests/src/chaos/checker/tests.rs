//! Histories made by hand: the good ones pass, and in the others exactly what is wrong with them is found.

use std::time::Duration;

use super::*;
use crate::chaos::conditions::{Conditions, Route};
use crate::chaos::history::{Disturbance, Process, Row, WORKS};
use crate::chaos::schedule::{Timed, Trouble, Way, Whose};
use crate::harness::database::LedgerRow;
use crate::harness::{Event, Kind};

/// A minute of three replicas. The last of them leads everything but `ledger`, which each test is about.
struct Story(History);

const END: i64 = 60_000;

impl Story {
    fn new() -> Self {
        let watched = Span { from: 0, until: END };
        let processes = (0..3).map(process).collect();
        let mut story = Self(History {
            kind: Kind::Postgres,
            conditions: Conditions { isolation: None, route: Route::Direct },
            unmet: Vec::new(),
            pooled: 0,
            watched,
            processes,
            disturbances: Vec::new(),
            stalls: Vec::new(),
            met: BTreeMap::new(),
            rows: Vec::new(),
            vanished: Vec::new(),
        });
        for (name, _) in WORKS.iter().filter(|(name, _)| *name != "ledger") {
            story = story.event(2, 200, "elected", name, 1).event(2, END, "stepped_down", name, 1);
        }
        story
    }

    fn event(mut self, process: usize, at_ms: i64, event: &str, name: &str, term: i64) -> Self {
        self.0.processes[process].events.push(Event {
            name: Some(name.to_owned()),
            term: Some(term),
            ..plain(process, at_ms, event)
        });
        self
    }

    /// A tenure of `ledger` that ends by itself.
    fn tenure(self, process: usize, term: i64, from: i64, until: i64) -> Self {
        self.event(process, from, "elected", "ledger", term).event(
            process,
            until,
            "stepped_down",
            "ledger",
            term,
        )
    }

    /// A tenure of `ledger` that is lost.
    fn lost(self, process: usize, term: i64, from: i64, lost: i64, until: i64) -> Self {
        let mut story = self
            .event(process, from, "elected", "ledger", term)
            .event(process, lost, "lost", "ledger", term)
            .event(process, until, "stepped_down", "ledger", term);
        let events = &mut story.0.processes[process].events;
        events.last_mut().unwrap().reason = Some("lease lost".to_owned());
        story
    }

    fn frozen(mut self, process: usize, from: i64, until: i64) -> Self {
        self.0.processes[process].frozen.push(Span { from, until });
        self
    }

    fn killed(mut self, process: usize, at: i64) -> Self {
        let process = &mut self.0.processes[process];
        process.events.retain(|event| event.at_ms <= at);
        (process.killed, process.asked, process.status) = (Some(at), None, None);
        process.alive.until = at + 3;
        self
    }

    fn exited(mut self, process: usize, at: i64, status: i32) -> Self {
        self = self.killed(process, at);
        (self.0.processes[process].killed, self.0.processes[process].status) = (None, Some(status));
        self
    }

    fn stubborn(mut self, process: usize) -> Self {
        self.0.processes[process].stubborn = true;
        self
    }

    fn disturbed(mut self, fault: Fault, from: i64, until: i64) -> Self {
        let timed = Timed { at: Duration::ZERO, length: Duration::ZERO, fault };
        let span = Span { from, until };
        self.0.disturbances.push(Disturbance { timed, span, came: true, missed: None });
        self
    }

    /// To a standby that has missed what was committed since a moment.
    fn failed_over(self, missed_from: i64, from: i64, until: i64) -> Self {
        let mut story = self.disturbed(Fault::FailOver, from, until);
        story.0.disturbances.last_mut().unwrap().missed = Some(Span { from: missed_from, until: from });
        story
    }

    /// A row of `ledger`, with the next id.
    fn row(mut self, process: usize, term: i64, at_ms: i64, unseen: Option<i64>) -> Self {
        let id = self.0.rows.last().map_or(0, |last| last.id) + 1;
        let instance = self.0.processes[process].instance.clone();
        let row = LedgerRow { name: "ledger".to_owned(), term, instance, seq: id, at_ms };
        self.0.rows.push(Row { id, row, unseen, seen: at_ms + 40 });
        self
    }

    fn stalled(mut self, from: i64, until: i64) -> Self {
        self.0.stalls.push(Span { from, until });
        self
    }

    fn by(mut self, route: Route) -> Self {
        self.0.conditions.route = route;
        self
    }

    fn on(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    fn verdict(mut self) -> Verdict {
        for process in &mut self.0.processes {
            process.events.sort_by_key(|event| event.at_ms);
            if process.status == Some(0) {
                process.events.push(plain(process.replica, END + 10, "stopped"));
            }
        }
        check(&self.0)
    }

    #[track_caller]
    fn passes(self) {
        let verdict = self.verdict();
        assert_eq!((verdict.violations, verdict.excused), (vec![], [].into()));
    }

    #[track_caller]
    fn passes_by(self, excuse: Excuse) {
        let verdict = self.verdict();
        assert_eq!(verdict.violations, []);
        assert_eq!(verdict.excused, [(excuse, 1)].into());
    }

    #[track_caller]
    fn breaks(self, breach: Breach) {
        self.breaks_all(&[breach]);
    }

    #[track_caller]
    fn breaks_all(self, all: &[Breach]) {
        let violations = self.verdict().violations;
        let breaches: Vec<_> = violations.iter().map(|violation| violation.breach).collect();
        assert_eq!(breaches, all, "{violations:#?}");
    }
}

fn process(replica: usize) -> Process {
    Process {
        replica,
        instance: format!("replica-{replica}"),
        stubborn: false,
        alive: Span { from: 0, until: END + 20 },
        events: vec![plain(replica, 100, "started")],
        frozen: Vec::new(),
        asked: Some(END),
        killed: None,
        overdue: false,
        status: Some(0),
        panic: None,
        conflicts: 0,
        log: String::new(),
        faults: Vec::new(),
    }
}

fn plain(process: usize, at_ms: i64, event: &str) -> Event {
    Event {
        at_ms,
        event: event.to_owned(),
        name: None,
        term: None,
        instance: format!("replica-{process}"),
        trace_id: None,
        reason: None,
        error: None,
    }
}

fn failing(replica: usize) -> Fault {
    let trouble = Trouble::Failing { code: "40001", every: 2 };
    Fault::Link { replica, whose: Whose::All, trouble }
}

fn cut(replica: usize) -> Fault {
    cut_off(replica, Whose::All)
}

fn cut_off(replica: usize, whose: Whose) -> Fault {
    Fault::Link { replica, whose, trouble: Trouble::Held { way: Way::Both } }
}

#[test]
fn one_after_the_other() {
    let story = Story::new().tenure(0, 5, 200, 30_000).tenure(1, 6, 30_000, END);
    let story = story.row(0, 5, 300, None).row(0, 5, 29_000, Some(28_950)).row(1, 6, 30_001, Some(30_000));
    let verdict = story.verdict();
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.tenures["ledger"], verdict.rows), (2, 3));
    assert_eq!(verdict.longest_gap, 0);
    assert!(verdict.judged > 55_000, "{}", verdict.judged);
}

#[test]
fn two_at_once() {
    Story::new().tenure(0, 5, 200, 30_001).tenure(1, 6, 30_000, END).breaks(Breach::Overlap);
    // Not only with the next one.
    let story = Story::new().tenure(0, 5, 200, 30_000).tenure(1, 6, 30_001, 30_002);
    let found = story.tenure(2, 7, 29_500, END).verdict().violations;
    assert_eq!(found.len(), 2, "with both others: {found:#?}");
    // A killed process ran until it was killed.
    Story::new().tenure(0, 5, 200, END).killed(0, 30_001).tenure(1, 6, 30_000, END).breaks(Breach::Overlap);
    Story::new().tenure(0, 5, 200, END).killed(0, 30_000).tenure(1, 6, 33_000, END).passes();
}

#[test]
fn who_wakes_up_may_find_a_successor() {
    let frozen = || Story::new().frozen(0, 20_000, 25_000);
    frozen().lost(0, 5, 200, 25_010, 25_200).tenure(1, 6, 23_000, END).passes_by(Excuse::Frozen);
    // It did not end soon after.
    frozen().lost(0, 5, 200, 25_010, 26_000).tenure(1, 6, 23_000, END).breaks(Breach::Overlap);
    frozen()
        .lost(0, 5, 200, 25_010, 26_000)
        .stalled(25_000, 25_500)
        .tenure(1, 6, 23_000, END)
        .passes_by(Excuse::Frozen);
    // The successor was there before.
    frozen().lost(0, 5, 200, 25_010, 25_200).tenure(1, 6, 19_999, END).breaks(Breach::Overlap);
    // Its lease cannot have run out.
    let shortly = Story::new().frozen(0, 20_000, 20_790);
    shortly.lost(0, 5, 200, 20_800, 20_900).tenure(1, 6, 20_850, END).breaks(Breach::Overlap);
    // Another one was frozen.
    let other = Story::new().frozen(2, 20_000, 25_000);
    let other = other.lost(0, 5, 200, 25_010, 25_200).tenure(1, 6, 23_000, END);
    other.breaks_all(&[Breach::Overlap, Breach::Loss]);
}

#[test]
fn who_was_robbed_has_its_grace() {
    let robbed = |fault| Story::new().disturbed(fault, 20_000, 20_010);
    for fault in [
        Fault::DeleteSessions { replica: 0 },
        Fault::DeleteName { name: "ledger" },
        Fault::EmptyTables,
        Fault::DropTables { recreate: true },
        Fault::RestoreTables,
        Fault::FailOver,
    ] {
        robbed(fault.clone())
            .lost(0, 5, 200, 20_300, 21_000)
            .tenure(1, 6, 20_050, END)
            .passes_by(Excuse::Robbed);
        // Between the claim and the election.
        let late = robbed(fault.clone()).tenure(2, 4, 200, 20_000).lost(0, 5, 20_100, 20_300, 21_000);
        late.tenure(1, 6, 20_150, END).passes_by(Excuse::Robbed);
        robbed(fault).lost(0, 5, 200, 22_000, 23_100).tenure(1, 6, 20_050, END).breaks(Breach::Overlap);
    }
    for fault in [cut(0), Fault::LockRows { table: "leader_sessions" }] {
        robbed(fault).lost(0, 5, 200, 20_300, 21_000).tenure(1, 6, 20_050, END).breaks(Breach::Overlap);
    }
    for fault in [Fault::DeleteSessions { replica: 1 }, Fault::DeleteName { name: "returns" }, failing(0)] {
        let story = robbed(fault).lost(0, 5, 200, 20_300, 21_000).tenure(1, 6, 20_050, END);
        story.breaks_all(&[Breach::Overlap, Breach::Loss]);
    }
}

#[test]
fn a_lease_is_lost_for_a_reason() {
    let lost = || Story::new().lost(0, 5, 200, 20_000, 20_100).tenure(1, 6, 21_000, END);
    lost().breaks(Breach::Loss);
    lost().frozen(0, 16_000, 19_000).passes();
    lost().frozen(0, 13_000, 16_000).breaks(Breach::Loss);
    lost().disturbed(cut(0), 16_000, 18_000).passes();
    lost().disturbed(cut(0), 1_000, 16_000).breaks(Breach::Loss);
    lost().disturbed(cut(1), 16_000, 18_000).breaks(Breach::Loss);
    lost().disturbed(Fault::FreezePooler, 16_000, 18_000).passes();
    lost().disturbed(Fault::DeleteSessions { replica: 0 }, 19_900, 19_901).passes();
    // What fails in passing is sent again, and a connection is dialled again.
    lost().disturbed(failing(0), 16_000, 20_000).breaks(Breach::Loss);
    lost().disturbed(Fault::KillBackends { count: 4 }, 19_000, 19_001).breaks(Breach::Loss);
    lost().disturbed(Fault::Reroute { replica: 0 }, 19_000, 19_001).breaks(Breach::Loss);
}

/// Renewals share nothing with works.
#[test]
fn what_stops_works_alone_costs_no_lease() {
    let lost = |kind| Story::new().on(kind).lost(0, 5, 200, 20_000, 20_100).tenure(1, 6, 21_000, END);
    for kind in [Kind::Postgres, Kind::MySql] {
        lost(kind).disturbed(cut_off(0, Whose::Works), 16_000, 18_000).breaks(Breach::Loss);
        lost(kind).disturbed(cut_off(0, Whose::Keeper), 16_000, 18_000).passes();
        lost(kind).disturbed(Fault::LockRows { table: "leader_names" }, 16_000, 18_000).breaks(Breach::Loss);
        lost(kind).disturbed(Fault::LockRows { table: "leader_sessions" }, 16_000, 18_000).passes();
    }
    lost(Kind::Postgres).disturbed(Fault::ReadOnly, 16_000, 18_000).breaks(Breach::Loss);
    lost(Kind::MySql).disturbed(Fault::ReadOnly, 16_000, 18_000).passes();
}

#[test]
fn rows_stay() {
    let vanished = || {
        let mut story = Story::new().tenure(0, 5, 200, END).row(0, 5, 20_000, None);
        story.0.vanished = std::mem::take(&mut story.0.rows);
        story
    };
    vanished().breaks(Breach::LostRow);
    vanished().disturbed(Fault::Restart { power_cut: true }, 20_100, 22_000).breaks(Breach::LostRow);
    vanished().failed_over(18_000, 20_100, 22_000).passes();
    // Committed late.
    vanished().failed_over(20_020, 20_100, 22_000).passes();
    // The standby has it, or it was written to the new primary.
    vanished().failed_over(20_050, 22_000, 24_000).breaks(Breach::LostRow);
    vanished().failed_over(50_000, 52_000, 54_000).breaks(Breach::LostRow);
    vanished().failed_over(16_000, 18_000, 20_010).breaks(Breach::LostRow);
}

#[test]
fn who_has_lost_has_its_grace() {
    let story = || Story::new().disturbed(cut(0), 18_000, 19_000);
    let lost = |until| story().lost(0, 5, 200, 20_000, until).tenure(1, 6, 25_000, END);
    lost(22_200).passes();
    lost(22_400).breaks(Breach::Grace);
    lost(24_000).frozen(0, 21_000, 23_000).passes();

    let overrun = |gone| {
        let story = story().event(0, 200, "elected", "ledger", 5).event(0, 20_000, "lost", "ledger", 5);
        let story = story.event(0, 21_000, "overrun", "ledger", 5).stubborn(0);
        story.exited(0, gone, 70).tenure(1, 6, 22_000, END)
    };
    overrun(21_100).passes();
    overrun(22_000).breaks(Breach::Grace);
}

#[test]
fn terms_grow() {
    Story::new().tenure(0, 5, 200, 30_000).tenure(1, 5, 30_000, END).breaks(Breach::TermTwice);
    let story = Story::new().tenure(0, 5, 200, 30_000).disturbed(Fault::EmptyTables, 29_000, 29_010);
    story.tenure(1, 4, 30_000, END).breaks(Breach::TermFell);
}

#[test]
fn events_fit() {
    let good = || Story::new().tenure(0, 5, 200, END);
    good().passes();
    let twice =
        good().event(0, 40_000, "elected", "ledger", 6).event(0, END + 1, "stepped_down", "ledger", 6);
    let breaches: Vec<_> = twice.verdict().violations.iter().map(|violation| violation.breach).collect();
    assert!(breaches.contains(&Breach::Events), "{breaches:?}");
    good().event(0, END + 1, "stepped_down", "ledger", 5).breaks(Breach::Events);
    let cut_off = good().disturbed(cut(0), END - 2_000, END - 1_000);
    let twice = cut_off.event(0, END - 2, "lost", "ledger", 5).event(0, END - 1, "lost", "ledger", 5);
    twice.breaks(Breach::Events);
    good().event(0, 300, "lost", "ledger", 4).breaks(Breach::Events);
    good().event(0, 300, "burst", "ledger", 5).breaks(Breach::Events);
    let mut silent = Story::new().lost(0, 5, 200, 30_000, 30_100).tenure(1, 6, 31_000, END);
    silent.0.processes[0].events.retain(|event| !event.is("lost"));
    silent.breaks(Breach::Events);
    let mut unfinished = good();
    unfinished.0.processes[0].events.retain(|event| !event.is("stepped_down"));
    let breaches = unfinished.verdict().violations;
    // It says itself that it has stopped, and its end says so again.
    assert!(
        breaches.len() == 2 && breaches.iter().all(|found| found.breach == Breach::Events),
        "{breaches:?}"
    );
}

#[test]
fn every_row_has_its_tenure() {
    let good = || Story::new().tenure(0, 5, 1_000, 30_000).tenure(1, 6, 30_000, END);
    good().row(0, 4, 2_000, None).breaks(Breach::Row);
    good().row(1, 5, 2_000, None).breaks(Breach::Row);
    good().row(0, 5, 999, None).breaks(Breach::Row);
    good().row(0, 5, 30_001, None).breaks(Breach::Row);
    let mut reversed = good().row(0, 5, 2_000, None).row(0, 5, 2_001, None);
    reversed.0.rows[1].row.seq = 1;
    reversed.breaks(Breach::Row);
}

#[test]
fn no_row_comes_after_its_successor() {
    let good = || Story::new().tenure(0, 5, 1_000, 30_000).tenure(1, 6, 30_001, END);
    good().row(0, 5, 29_999, Some(30_001)).row(1, 6, 30_010, None).passes();
    // By its id.
    good().row(1, 6, 30_010, None).row(0, 5, 29_999, None).breaks(Breach::StaleRow);
    // By the moment when it was not there yet.
    good().row(0, 5, 29_999, Some(30_002)).row(1, 6, 30_010, None).breaks(Breach::StaleRow);
    // No freeze and no operator is an excuse.
    let frozen = Story::new().frozen(0, 20_000, 25_000).disturbed(Fault::EmptyTables, 20_000, 20_010);
    let frozen = frozen.lost(0, 5, 200, 25_010, 25_200).tenure(1, 6, 23_000, END);
    frozen.row(0, 5, 19_999, Some(23_001)).breaks(Breach::StaleRow);
}

#[test]
fn somebody_leads_while_all_is_well() {
    let gap = || Story::new().tenure(0, 5, 200, 20_000).tenure(1, 6, 30_000, END);
    let found = gap().verdict().violations;
    assert_eq!(found.len(), 3, "of each replica: {found:?}");
    assert!(found.iter().all(|found| found.breach == Breach::Gap));

    let verdict = gap().disturbed(Fault::FreezeServer, 20_000, 22_000).verdict();
    assert_eq!((verdict.violations, verdict.longest_gap), (vec![], 6_000));
    gap().stalled(23_500, 24_000).passes();
    let found = gap().disturbed(failing(0), 20_000, 25_000).verdict().violations;
    assert_eq!(found.len(), 3, "what fails in passing is sent again: {found:?}");
    let faults = [cut(0), cut(1), cut(2)];
    faults.into_iter().fold(gap(), |story, fault| story.disturbed(fault, 20_000, 25_000)).passes();
    let found =
        gap().disturbed(cut(0), 20_000, 25_000).disturbed(cut(1), 20_000, 25_000).verdict().violations;
    assert_eq!(found.len(), 1, "of the third: {found:?}");
    let faults = [0, 1, 2].map(|replica| cut_off(replica, Whose::Works));
    let works = faults.into_iter().fold(gap(), |story, fault| story.disturbed(fault, 20_000, 25_000));
    assert_eq!(works.verdict().violations.len(), 3, "keepers campaign all the same");
    let found = gap().disturbed(Fault::ReadOnly, 20_000, 25_000).verdict().violations;
    assert_eq!(found.len(), 3, "the keeper does not mind: {found:?}");
    gap().on(Kind::MySql).disturbed(Fault::ReadOnly, 20_000, 25_000).passes();

    // Nothing wakes a standby behind a pooler.
    let gap = |until| Story::new().tenure(0, 5, 200, 20_000).tenure(1, 6, until, END);
    gap(26_600).breaks_all(&[Breach::Gap; 3]);
    for route in [Route::Pooled, Route::Changing] {
        gap(26_600).by(route).passes();
        gap(28_000).by(route).breaks_all(&[Breach::Gap; 3]);
    }
    let found = gap(30_000).disturbed(Fault::Reroute { replica: 0 }, 24_000, 24_000).verdict().violations;
    assert_eq!(found.len(), 2, "of the other two: {found:?}");
    gap(30_000).disturbed(Fault::FreezePooler, 24_000, 25_000).passes();

    // Who is frozen leads nothing.
    let frozen =
        || Story::new().lost(0, 5, 200, 30_010, 30_100).frozen(0, 20_000, 30_000).tenure(1, 6, 30_200, END);
    assert_eq!(frozen().verdict().violations.len(), 2, "of the other two");
    frozen().on(Kind::Sqlite).passes();
}

#[test]
fn processes_end_as_they_should() {
    let good = || Story::new().tenure(2, 5, 200, END);
    let broken_start = |but: fn(Story) -> Story| but(good().exited(0, 50, 1));
    good().killed(0, 30_000).passes();
    good().exited(0, 30_000, 70).stubborn(0).passes();
    good().exited(0, 30_000, 70).frozen(0, 25_000, 29_000).passes();
    good().exited(0, 30_000, 70).disturbed(cut(0), 25_000, 29_000).passes();
    good().exited(0, 30_000, 70).disturbed(cut(1), 25_000, 29_000).breaks(Breach::Exit);
    good().exited(0, 30_000, 70).disturbed(Fault::EmptyTables, 29_000, 29_010).breaks(Breach::Exit);
    broken_start(|story| story.disturbed(cut(0), 0, 1_000)).passes();
    broken_start(|story| story.disturbed(failing(0), 0, 1_000)).passes();
    broken_start(|story| story.disturbed(Fault::KillBackends { count: 1 }, 10, 20)).passes();
    broken_start(|story| story.disturbed(Fault::Reroute { replica: 0 }, 10, 10)).passes();
    broken_start(|story| story.frozen(2, 0, 1_000).on(Kind::Sqlite)).passes();
    broken_start(|story| story.stalled(0, 300)).passes();
    broken_start(|story| story.frozen(2, 0, 1_000)).passes_by(Excuse::SlowStart);
    let four = broken_start(|mut story| {
        story.0.processes.extend([process(0), process(0), process(0)]);
        story.exited(3, 50, 1).exited(4, 50, 1).exited(5, 50, 1)
    });
    four.breaks_all(&[Breach::Exit; 4]);
    good().exited(0, 30_000, 1).disturbed(cut(0), 29_000, 29_500).breaks(Breach::Exit);
    good().exited(0, 30_000, 101).breaks(Breach::Exit);
    let broken = |of: fn(&mut Process)| {
        let mut story = good();
        of(&mut story.0.processes[0]);
        story
    };
    broken(|process| process.asked = None).breaks(Breach::Exit);
    broken(|process| process.status = None).breaks(Breach::Exit);
    broken(|process| (process.status, process.events) = (None, Vec::new())).passes();
    let overdue = || broken(|process| process.overdue = true);
    overdue().breaks(Breach::Exit);
    overdue().disturbed(cut(0), 20_000, 21_000).breaks(Breach::Exit);
    let swallowed = |replica| {
        let trouble = Trouble::Swallowed { way: Way::FromServer };
        Fault::Link { replica, whose: Whose::Works, trouble }
    };
    overdue().disturbed(swallowed(1), 20_000, 21_000).breaks(Breach::Exit);
    overdue().disturbed(swallowed(0), 20_000, 21_000).passes_by(Excuse::Unanswered);
    broken(|process| process.panic = Some("panicked at".to_owned())).breaks(Breach::Exit);
}
