//! Kept figures, drawn: one plot for all databases.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

use crate::figures::cost::Cost;
use crate::record::{Figure, Record};
use crate::stats::Summary;

/// Draws what there is: handovers, crashes, and how the cost grows.
///
/// # Errors
///
/// When a file cannot be written.
pub fn draw(records: &[Record], directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    for label in labels(records) {
        let same: Vec<&Record> = records.iter().filter(|record| record.figure.label() == label).collect();
        let curves = |of: fn(&Figure) -> Option<&Summary>| -> Vec<Line> {
            same.iter().filter_map(|record| Some((name(record), quantiles(of(&record.figure)?)))).collect()
        };
        let plot = match &same[0].figure {
            Figure::Handover(_) => Plot {
                title: "From the return of a work to the next tenure",
                x: "ms",
                y: "% of handovers within",
                lines: curves(|figure| match figure {
                    Figure::Handover(handover) => Some(&handover.handover),
                    _ => None,
                }),
            },
            Figure::Crash(_) => Plot {
                title: "From the kill of a leader to the next tenure",
                x: "ms",
                y: "% of crashes within",
                lines: curves(|figure| match figure {
                    Figure::Crash(crash) => Some(&crash.takeover),
                    _ => None,
                }),
            },
            Figure::Cost(_) => Plot {
                title: "Statements of all replicas together",
                x: "names (powers of ten)",
                y: "statements a second",
                lines: same
                    .iter()
                    .flat_map(|record| match &record.figure {
                        Figure::Cost(cost) => by_names(cost, &name(record)),
                        _ => Vec::new(),
                    })
                    .collect(),
            },
            _ => continue,
        };
        plot.draw(&directory.join(format!("{label}.svg")))?;
    }
    Ok(())
}

type Line = (String, Vec<(f64, f64)>);

fn labels(records: &[Record]) -> Vec<String> {
    let mut labels: Vec<String> = records.iter().map(|record| record.figure.label()).collect();
    labels.dedup();
    labels
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
            (f64::from(names).log10(), cell.all)
        });
        (format!("{database}, {replicas}"), points.collect())
    };
    replicas.into_iter().map(line).collect()
}

struct Plot {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    lines: Vec<Line>,
}

impl Plot {
    fn draw(&self, file: &Path) -> anyhow::Result<()> {
        self.try_draw(file).map_err(|error| anyhow!("cannot draw {}: {error}", file.display()))
    }

    fn try_draw(&self, file: &Path) -> Result<(), String> {
        const SIZE: (u32, u32) = (720, 420);

        let points = || self.lines.iter().flat_map(|(_, points)| points.iter().copied());
        let right = points().map(|(x, _)| x).fold(1e-9, f64::max);
        let top = points().map(|(_, y)| y).fold(1e-9, f64::max);
        let file = file.to_path_buf();
        let area = SVGBackend::new(&file, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| error.to_string())?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..right * 1.02, 0.0..top * 1.05)
            .map_err(|error| error.to_string())?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(|error| error.to_string())?;
        for (index, (name, points)) in self.lines.iter().enumerate() {
            let style = Palette99::pick(index).stroke_width(2);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))
                .map_err(|error| error.to_string())?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()
            .map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())?;
        Ok(())
    }
}
