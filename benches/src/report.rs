//! Kept figures, written down.

use std::collections::BTreeMap;
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
    /// Where the plots go, below the page's directory if the page is to show them; they need the feature `plots`
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
    let images = match &options.plots {
        Some(directory) => draw(&records, directory)?,
        None => BTreeMap::new(),
    };
    let Some(page) = &options.into else {
        print!("{}", tables(&records, &BTreeMap::new()));
        return Ok(());
    };
    let images = images.into_iter().map(|(label, image)| Ok((label, image.shown_on(page)?)));
    rewrite(page, "figures", &tables(&records, &images.collect::<anyhow::Result<_>>()?))
}

/// A plot, drawn.
#[derive(Clone, Debug)]
pub struct Image {
    /// What it shows.
    pub title: &'static str,
    /// Where it is.
    pub file: PathBuf,
}

impl Image {
    /// Markdown that shows it on this page, wherever the two are copied together.
    ///
    /// # Errors
    ///
    /// When one does not exist, or the image is not below the page's directory.
    pub fn shown_on(&self, page: &Path) -> anyhow::Result<String> {
        let (file, page) = (self.file.canonicalize()?, page.canonicalize()?);
        let below = page.parent().and_then(|directory| file.strip_prefix(directory).ok());
        let below = below.with_context(|| format!("{} is not below {}", file.display(), page.display()))?;
        Ok(format!("![{}]({})", self.title, below.display()))
    }
}

/// The tables, and after those of a figure its image, by the figure's label.
fn tables(records: &[Record], images: &BTreeMap<String, String>) -> String {
    let mut tables = String::new();
    if let Some(record) = records.first() {
        let _ = writeln!(tables, "Machine: {}.", record.machine);
    }
    for same in records.chunk_by(Record::is_beside) {
        let label = same[0].figure.label();
        for record in same {
            let title = capitalized(&label.replace('-', " "));
            let on = record.database.map(|database| format!(", {}", database.kind())).unwrap_or_default();
            let _ = write!(tables, "\n### {title}{on}\n\n{record}");
        }
        if let Some(image) = images.get(&label) {
            let _ = writeln!(tables, "\n{image}");
        }
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
fn draw(records: &[Record], directory: &Path) -> anyhow::Result<BTreeMap<String, Image>> {
    crate::plots::draw(records, directory)
}

#[cfg(not(feature = "plots"))]
fn draw(_: &[Record], _: &Path) -> anyhow::Result<BTreeMap<String, Image>> {
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
    #[test]
    fn an_image_is_shown_from_below_the_page() {
        let directory = tempfile::tempdir().expect("a directory");
        let (page, file) = (directory.path().join("page.md"), directory.path().join("plots/cost.svg"));
        std::fs::create_dir(directory.path().join("plots")).expect("a directory below");
        for file in [&page, &file] {
            std::fs::write(file, "").expect("a file");
        }
        let image = Image { title: "Cost", file };
        assert_eq!(image.shown_on(&page).expect("it is below"), "![Cost](plots/cost.svg)");
        assert!(image.shown_on(&image.file).is_ok(), "beside it");
        let below = Image { title: "Page", file: page };
        assert!(below.shown_on(&image.file).is_err());
    }
}
