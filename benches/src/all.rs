//! Everything on every database, one after the other; side by side only where nothing but statements or whole seconds
//! count.

use std::collections::HashSet;
use std::mem::discriminant;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Instant;

use anyhow::{anyhow, ensure};
use futures::FutureExt;
use futures::future::join_all;

use crate::figures::{build, cost, crash, fence, handover, names};
use crate::place::{Choice, Database};
use crate::record::{Record, Task};
use crate::replicas::{Pace, Program};

/// Measures everything and keeps it in a directory. What fails does not keep the rest from being measured.
///
/// # Errors
///
/// When something could not be measured or kept.
pub async fn measure(out: &Path, program: &Program, quick: bool) -> anyhow::Result<()> {
    std::fs::create_dir_all(out)?;
    // Built before anything is measured beside it.
    let program = Program { replica: Some(program.find()?) };
    let began = Instant::now();
    let mut failed = 0;
    let mut plan = plan(&program);
    if quick {
        each_once(&mut plan);
    }
    for (databases, task) in plan {
        let side_by_side = databases.iter().map(|database| {
            let choice = Choice { database: *database, database_url: None };
            let task = &task;
            // The harness panics where a test would fail.
            AssertUnwindSafe(async move { task.measure(&choice, quick).await }).catch_unwind()
        });
        for record in join_all(side_by_side).await {
            let record = record.unwrap_or_else(|_| Err(anyhow!("it panicked")));
            if let Err(error) = record.and_then(|record| print_and_keep(&record, out)) {
                failed += 1;
                eprintln!("error: {task:?}: {error:#}");
            }
        }
    }
    eprintln!("{:.1} minutes altogether", began.elapsed().as_secs_f64() / 60.0);
    ensure!(failed == 0, "{failed} could not be measured");
    Ok(())
}

fn print_and_keep(record: &Record, out: &Path) -> anyhow::Result<()> {
    println!("## {}\n\n{record}", record.figure.label());
    record.keep(out)
}

/// A task, and the databases that it is measured on side by side.
type Step = (Vec<Database>, Task);

/// Leaves the first task of each kind, on every database at the same time.
fn each_once(plan: &mut Vec<Step>) {
    let mut kinds = HashSet::new();
    plan.retain(|(_, task)| kinds.insert(discriminant(task)));
    for (databases, task) in plan {
        if !matches!(task, Task::Build(_)) {
            *databases = Database::ALL.to_vec();
        }
    }
}

fn plan(program: &Program) -> Vec<Step> {
    let alone = |task: Task| Database::ALL.map(|database| (vec![database], task.clone()));
    let together = |task: Task| (Database::ALL.to_vec(), task);
    let handover = |replicas| handover::Options { n: 200, replicas, names: 64, pause: 300 };
    let busy = handover::Options { n: 400, replicas: 2, names: 400, pause: 0 };
    let crash = |timings, n, beside| crash::Options { n: Some(n), timings, beside, program: program.clone() };
    let names = vec![1, 10, 100, 1_000, 10_000];
    let mut plan = Vec::new();
    plan.extend(alone(Task::Handover(handover(2))));
    plan.extend(alone(Task::Handover(handover(3))));
    plan.push((vec![Database::Postgres], Task::Handover(busy)));
    plan.extend(alone(Task::Fence(fence::Options { n: 10_000 })));
    plan.extend(alone(Task::Crash(crash(Pace::Fast, 100, 4))));
    plan.push(together(Task::Crash(crash(Pace::Default, 20, 5))));
    plan.push(together(Task::Cost(cost::Options {
        names: names.clone(),
        replicas: vec![1, 3, 10],
        seconds: 18,
    })));
    let many = cost::Options { names: vec![1_000], replicas: vec![50], seconds: 18 };
    plan.push((vec![Database::Postgres], Task::Cost(many)));
    plan.extend(alone(Task::Names(names::Options {
        names,
        seconds: 20,
        timings: Pace::Default,
        program: program.clone(),
    })));
    plan.push((vec![Database::Postgres], Task::Build(build::Options { runs: 1, crates_only: false })));
    plan
}
