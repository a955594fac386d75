//! The figures of all, drawn: one plot of what they cost, one of how long they take.

use std::path::Path;

use leader_benches::plot::{Axis, Bars, Curves};
use leader_benches::report::Image;

use crate::measure::Figures;

/// Draws them into this directory.
pub fn draw(all: &[Figures], directory: &Path) -> anyhow::Result<Vec<Image>> {
    std::fs::create_dir_all(directory)?;
    let (cost, took) = (cost(all), took(all));
    let images = [(cost.title, "peers-cost.svg"), (took.title, "peers-took.svg")]
        .map(|(title, file)| Image { title, file: directory.join(file) });
    cost.draw(&images[0].file)?;
    took.draw(&images[1].file)?;
    Ok(images.into())
}

fn cost(all: &[Figures]) -> Curves {
    let by_names = |figures: &Figures| {
        let points = figures.cost.iter().map(|(names, rate)| {
            let names = u32::try_from(*names).unwrap_or(u32::MAX);
            (f64::from(names), *rate)
        });
        (figures.whose.clone(), points.collect())
    };
    Curves {
        title: "Statements of three idle replicas together",
        x: Axis::Log("names"),
        y: Axis::Log("statements a second"),
        lines: all.iter().map(by_names).collect(),
    }
}

fn took(all: &[Figures]) -> Bars {
    let medians = |figures: &Figures| {
        let medians = [&figures.handover, &figures.crash].map(|took| took.as_ref().map(|took| took.p50));
        (figures.whose.clone(), medians.into())
    };
    Bars {
        title: "How long nobody works",
        x: "ms, median",
        kinds: vec!["handover", "crash"],
        rows: all.iter().map(medians).collect(),
    }
}
