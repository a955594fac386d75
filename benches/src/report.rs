//! Kept figures, written down.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;

use crate::record::Record;

/// What to write where.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Where the figures are kept
    pub figures: PathBuf,
    /// A page whose part between `<!-- figures -->` and `<!-- end of figures -->` is replaced [default: prints the tables]
    #[arg(long, value_name = "FILE")]
    pub into: Option<PathBuf>,
    /// Where the plots go; they need the feature `plots`
    #[arg(long, value_name = "DIRECTORY")]
    pub plots: Option<PathBuf>,
}

/// Writes the tables, and draws the plots if it was asked to.
///
/// # Errors
///
/// When a figure cannot be read, or something cannot be written.
pub fn write(options: &Options) -> anyhow::Result<()> {
    let records = Record::read_all(&options.figures)?;
    let tables = tables(&records);
    match &options.into {
        None => print!("{tables}"),
        Some(page) => rewrite(page, "figures", &tables)?,
    }
    if let Some(plots) = &options.plots {
        draw(&records, plots)?;
    }
    Ok(())
}

fn tables(records: &[Record]) -> String {
    let mut tables = String::new();
    if let Some(record) = records.first() {
        let _ = writeln!(tables, "Machine: {}.", record.machine);
    }
    for record in records {
        let title = record.figure.label().replace('-', " ");
        let on = record.database.map(|database| format!(", {}", database.kind())).unwrap_or_default();
        let _ = write!(tables, "\n### {}{on}\n\n{record}", capitalized(&title));
    }
    tables
}

fn capitalized(title: &str) -> String {
    let mut characters = title.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// Replaces what stands between `<!-- PART -->` and `<!-- end of PART -->` on a page.
///
/// # Errors
///
/// When the page cannot be read or written, or has no such part.
pub fn rewrite(page: &Path, part: &str, tables: &str) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    Ok(std::fs::write(page, replace(&text, part, tables)?)?)
}

fn replace(page: &str, part: &str, tables: &str) -> anyhow::Result<String> {
    let (begin, end) = (format!("<!-- {part} -->\n"), format!("<!-- end of {part} -->\n"));
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.with_context(|| format!("the page has no part for {part}"))?;
    ensure!(!after.contains(&begin), "the page has two parts for {part}");
    Ok(format!("{before}{begin}\n{tables}\n{end}{after}"))
}

#[cfg(feature = "plots")]
fn draw(records: &[Record], directory: &Path) -> anyhow::Result<()> {
    crate::plots::draw(records, directory)
}

#[cfg(not(feature = "plots"))]
fn draw(_: &[Record], _: &Path) -> anyhow::Result<()> {
    anyhow::bail!("this program was built without the feature `plots`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_for_figures_is_replaced() {
        let (begin, end) = ("<!-- figures -->\n", "<!-- end of figures -->\n");
        let page = format!("# Before\n{begin}old\n{end}after\n");
        let replaced = replace(&page, "figures", "new").expect("a part for figures");
        assert_eq!(replaced, format!("# Before\n{begin}\nnew\n{end}after\n"));
        assert_eq!(replace(&replaced, "figures", "new").expect("it is still there"), replaced);
        assert!(replace(&page, "peers", "new").is_err());
        assert!(replace(&page.repeat(2), "figures", "new").is_err());
    }
}
