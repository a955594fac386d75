//! Kept figures, drawn: one plot for all databases.

use std::collections::BTreeMap;
use std::path::Path;

use crate::figures::cost::Cost;
use crate::plot::{Axis, Curves, Line};
use crate::record::{Figure, Record};
use crate::report::Image;
use crate::stats::Summary;

/// Draws what there is: handovers, crashes, and how the cost grows. The plots by the label of their figures.
///
/// # Errors
///
/// When a file cannot be written.
pub fn draw(records: &[Record], directory: &Path) -> anyhow::Result<BTreeMap<String, Image>> {
    std::fs::create_dir_all(directory)?;
    let mut images = BTreeMap::new();
    for same in records.chunk_by(Record::is_beside) {
        let label = same[0].figure.label();
        // One point is no curve.
        let Some(curves) =
            curves(same).filter(|curves| curves.lines.iter().any(|(_, points)| points.len() > 1))
        else {
            continue;
        };
        let image = Image { title: curves.title, file: directory.join(format!("{label}.svg")) };
        curves.draw(&image.file)?;
        images.insert(label, image);
    }
    Ok(images)
}

/// Those of a figure on several databases.
fn curves(same: &[Record]) -> Option<Curves> {
    let within = |of: fn(&Figure) -> Option<&Summary>| -> Vec<Line> {
        same.iter().filter_map(|record| Some((name(record), quantiles(of(&record.figure)?)))).collect()
    };
    match &same[0].figure {
        Figure::Handover(_) => Some(Curves {
            title: "From the return of a work to the next tenure",
            x: Axis::Log("ms"),
            y: Axis::Linear("% of handovers within"),
            lines: within(|figure| match figure {
                Figure::Handover(handover) => Some(&handover.handover),
                _ => None,
            }),
        }),
        Figure::Crash(_) => Some(Curves {
            title: "From the kill of a leader to the next tenure",
            x: Axis::Close("ms"),
            y: Axis::Linear("% of crashes within"),
            lines: within(|figure| match figure {
                Figure::Crash(crash) => Some(&crash.takeover),
                _ => None,
            }),
        }),
        Figure::Cost(_) => Some(Curves {
            title: "Statements of all replicas together",
            x: Axis::Log("names"),
            y: Axis::Log("statements a second"),
            lines: same
                .iter()
                .flat_map(|record| match &record.figure {
                    Figure::Cost(cost) => by_names(cost, &name(record)),
                    _ => Vec::new(),
                })
                .collect(),
        }),
        _ => None,
    }
}

fn name(record: &Record) -> String {
    record.database.map(|database| database.kind().to_string()).unwrap_or_default()
}

fn quantiles(summary: &Summary) -> Vec<(f64, f64)> {
    (0..=100).zip(&summary.curve).map(|(percent, value)| (*value, f64::from(percent))).collect()
}

fn by_names(cost: &Cost, database: &str) -> Vec<Line> {
    let mut replicas: Vec<usize> = cost.cells.iter().map(|cell| cell.replicas).collect();
    replicas.sort_unstable();
    replicas.dedup();
    let line = |replicas| {
        let cells = cost.cells.iter().filter(|cell| cell.replicas == replicas);
        let points = cells.map(|cell| {
            let names = u32::try_from(cell.names).unwrap_or(u32::MAX);
            (f64::from(names), cell.all)
        });
        (format!("{database}, {replicas}"), points.collect())
    };
    replicas.into_iter().map(line).collect()
}
