//! Kept figures, written down.

use std::fmt::Write as _;
use std::path::PathBuf;

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

const BEGIN: &str = "<!-- figures -->\n";
const END: &str = "<!-- end of figures -->\n";

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
        Some(page) => {
            let text =
                std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
            std::fs::write(page, replace(&text, &tables)?)?;
        }
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

/// The page with other tables.
fn replace(page: &str, tables: &str) -> anyhow::Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.context("the page has no part for figures")?;
    ensure!(!after.contains(BEGIN), "the page has two parts for figures");
    Ok(format!("{before}{BEGIN}\n{tables}\n{END}{after}"))
}

#[cfg(feature = "plots")]
fn draw(records: &[Record], directory: &std::path::Path) -> anyhow::Result<()> {
    crate::plots::draw(records, directory)
}

#[cfg(not(feature = "plots"))]
fn draw(_: &[Record], _: &std::path::Path) -> anyhow::Result<()> {
    anyhow::bail!("this program was built without the feature `plots`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_for_figures_is_replaced() {
        let page = format!("# Before\n{BEGIN}old\n{END}after\n");
        let replaced = replace(&page, "new").expect("a part for figures");
        assert_eq!(replaced, format!("# Before\n{BEGIN}\nnew\n{END}after\n"));
        assert_eq!(replace(&replaced, "new").expect("it is still there"), replaced);
        assert!(replace("# None", "new").is_err());
    }
}
