//! Curves and bars, drawn as SVG.

use std::path::Path;

use anyhow::Context;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::stats::short;

/// What an axis shows.
#[derive(Clone, Copy, Debug)]
pub enum Axis {
    /// From zero on, with this label.
    Linear(&'static str),
    /// From the least value to the largest, with this label.
    Close(&'static str),
    /// By powers of ten, with this label.
    Log(&'static str),
}

/// A name, and points from left to right.
pub type Line = (String, Vec<(f64, f64)>);

/// Curves in one plot.
#[derive(Clone, Debug)]
pub struct Curves {
    /// Above it.
    pub title: &'static str,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The curves.
    pub lines: Vec<Line>,
}

/// Bars to the right by powers of ten, some for each row.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Above them.
    pub title: &'static str,
    /// Below them.
    pub x: &'static str,
    /// What a row has a bar for.
    pub kinds: Vec<&'static str>,
    /// A name, and a value for each kind, from top to bottom.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

const WIDTH: u32 = 720;
/// Of it, to the right: nothing drawn is hidden by a legend.
const LEGEND: u32 = 130;
const FONT: (&str, u32) = ("sans-serif", 12);

impl Curves {
    /// Draws them into a file.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn draw(&self, file: &Path) -> anyhow::Result<()> {
        let points = || self.lines.iter().flat_map(|(_, points)| points.iter().copied());
        let y = || points().map(|(_, y)| y);
        let x = self.x.range(points().map(|(x, _)| x));
        let drawn = match (x, self.y.range(y())) {
            (Range::Even(x), Range::Even(y)) => self.draw_on(x, y, file),
            (Range::Even(x), Range::Powers(y)) => self.draw_on(x, y, file),
            (Range::Powers(x), Range::Even(y)) => self.draw_on(x, y, file),
            (Range::Powers(x), Range::Powers(y)) => self.draw_on(x, y, file),
        };
        drawn.with_context(|| format!("cannot draw {}", file.display()))
    }

    fn draw_on<X, Y>(&self, x: X, y: Y, file: &Path) -> anyhow::Result<()>
    where
        X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
        Y: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
    {
        /// So few points are marked: one alone makes no line.
        const FEW: usize = 10;

        let area = SVGBackend::new(file, (WIDTH, 420)).into_drawing_area();
        area.fill(&WHITE)?;
        let (area, beside) = area.split_horizontally(WIDTH - LEGEND);
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x.label())
            .y_desc(self.y.label())
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (index, (name, points)) in self.lines.iter().enumerate() {
            let style = Palette99::pick(index).stroke_width(2);
            chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
            if points.len() <= FEW {
                chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, style.filled())))?;
            }
            let at = legend(index);
            beside.draw(&(EmptyElement::at(at) + PathElement::new([(0, 0), (16, 0)], style)))?;
            beside.draw(&Text::new(name.as_str(), (at.0 + 22, at.1 - 6), FONT))?;
        }
        area.present()?;
        Ok(())
    }
}

impl Bars {
    /// Draws them into a file.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn draw(&self, file: &Path) -> anyhow::Result<()> {
        self.try_draw(file).with_context(|| format!("cannot draw {}", file.display()))
    }

    fn try_draw(&self, file: &Path) -> anyhow::Result<()> {
        let bars = self.upwards();
        let range = by_powers(bars.iter().map(|bar| bar.value));
        let left = range.range().start;
        let height = 90 + 22 * u32::try_from(bars.len())?;
        let area = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let (area, beside) = area.split_horizontally(WIDTH - LEGEND);
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(104)
            .build_cartesian_2d(range, (0..bars.len()).into_segmented())?;
        let name = |at: &SegmentValue<usize>| match at {
            SegmentValue::CenterOf(at) => bars.get(*at).map_or_else(String::new, |bar| bar.name.clone()),
            SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
        };
        chart
            .configure_mesh()
            .x_desc(self.x)
            .x_label_formatter(&|value| tick(*value))
            .y_labels(bars.len())
            .y_label_formatter(&name)
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (kind, label) in self.kinds.iter().enumerate() {
            let style = Palette99::pick(kind).filled();
            let of_kind = || bars.iter().enumerate().filter(|(_, bar)| bar.kind == kind);
            chart.draw_series(of_kind().map(|(at, bar)| {
                let corners = [(left, SegmentValue::Exact(at)), (bar.value, SegmentValue::Exact(at + 1))];
                let mut rectangle = Rectangle::new(corners, style);
                rectangle.set_margin(3, 3, 0, 0);
                rectangle
            }))?;
            let at = legend(kind);
            beside.draw(&(EmptyElement::at(at) + Rectangle::new([(0, -5), (16, 5)], style)))?;
            beside.draw(&Text::new(*label, (at.0 + 22, at.1 - 6), FONT))?;
            chart.draw_series(of_kind().map(|(at, bar)| {
                let beside = EmptyElement::at((bar.value, SegmentValue::CenterOf(at)));
                beside + Text::new(short(bar.value), (4, -6), FONT)
            }))?;
        }
        area.present()?;
        Ok(())
    }

    fn upwards(&self) -> Vec<Bar> {
        let bars = self.rows.iter().flat_map(|(name, values)| {
            let values = values.iter().enumerate();
            values.filter_map(|(kind, value)| Some(Bar { name: name.clone(), kind, value: (*value)? }))
        });
        let mut bars: Vec<Bar> = bars.collect();
        bars.reverse();
        bars
    }
}

struct Bar {
    name: String,
    kind: usize,
    value: f64,
}

/// Where the legend says what the one at this index is.
fn legend(index: usize) -> (i32, i32) {
    (4, 50 + 18 * i32::try_from(index).unwrap_or(i32::MAX / 18))
}

enum Range {
    Even(std::ops::Range<f64>),
    Powers(LogCoord<f64>),
}

impl Axis {
    fn label(self) -> &'static str {
        let (Self::Linear(label) | Self::Close(label) | Self::Log(label)) = self;
        label
    }

    fn range(self, values: impl Iterator<Item = f64>) -> Range {
        match self {
            Self::Linear(_) => Range::Even(0.0..values.fold(1e-9, f64::max) * 1.05),
            Self::Close(_) => Range::Even(around(values)),
            Self::Log(_) => Range::Powers(by_powers(values)),
        }
    }
}

/// All of them, with a little beside.
fn around(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (least, most) =
        values.fold((f64::MAX, f64::MIN), |(least, most), value| (value.min(least), value.max(most)));
    if least > most {
        return 0.0..1.0;
    }
    let beside = ((most - least) * 0.05).max(1e-9);
    least - beside..most + beside
}

/// Whole powers around all that is above zero.
fn by_powers(values: impl Iterator<Item = f64>) -> LogCoord<f64> {
    let (least, most) = values
        .filter(|value| *value > 0.0)
        .map(f64::log10)
        .fold((f64::MAX, f64::MIN), |(least, most), value| (value.min(least), value.max(most)));
    let (least, most) = if least <= most { (least.floor(), most.ceil()) } else { (0.0, 1.0) };
    (10_f64.powf(least)..10_f64.powf(most.max(least + 1.0)) * 1.2).log_scale().into()
}

fn tick(value: f64) -> String {
    ((value * 1e3).round() / 1e3).to_string()
}
