//! Draws the pictures and the table of `docs/benchmarks.md` from the files of the runs: `tests/run charts`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use mcp_lifecycle_measure::table::{Legend, csv, insert};
use mcp_lifecycle_measure::{Is, Record, Series, draw, summary};

fn main() -> Result<(), Box<dyn Error>> {
    for (file, text) in pages()? {
        fs::write(&file, text)?;
        println!("{}", file.display());
    }
    Ok(())
}

/// All that is drawn from the data, with the file that it belongs to.
fn pages() -> Result<Vec<(PathBuf, String)>, Box<dyn Error>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let directory = docs.join("benchmarks");
    let records = records(&directory.join("runs"))?;
    let legend = Legend::parse(&fs::read_to_string(directory.join("table.toml"))?)?;
    let figures = summary::figures(&records);
    let series = summary::series(&records);
    let page = fs::read_to_string(docs.join("benchmarks.md"))?;
    let mut pages = vec![
        (
            docs.join("benchmarks.md"),
            insert(&page, &legend, &figures)?,
        ),
        (directory.join("table.csv"), csv(&legend, &figures)?),
    ];
    let mut add =
        |name: &str, svg: String| pages.push((directory.join(format!("{name}.svg")), svg));

    let in_order = |wanted: &dyn Fn(&&summary::Summary) -> bool| {
        let of = |name| figures.iter().filter(move |s| s.harness == name);
        legend
            .harnesses()
            .flat_map(of)
            .filter(wanted)
            .collect::<Vec<_>>()
    };
    let ratios = in_order(&|s| s.last.is == Is::Ratio && s.values.iter().all(|v| *v > 0.0));
    let axis = "ours divided by the peer's";
    add(
        "ratios",
        draw::rows("Ratios to a peer in the same run", axis, &ratios, |_| 1.0),
    );
    let has_bar = |s: &&summary::Summary| s.last.bar().is_some_and(|bar| bar.number() > 0.0);
    let bars =
        in_order(&|s| s.last.is != Is::Ratio && has_bar(s) && s.values.iter().all(|v| *v > 0.0));
    let bar = |s: &summary::Summary| s.last.bar().map_or(1.0, |bar| bar.number());
    add(
        "bars",
        draw::rows(
            "Figures with a bar of their own",
            "measured divided by the bar",
            &bars,
            bar,
        ),
    );

    let set = in_order(&|s| s.harness == "set");
    let title = "Five servers of npm and two of PyPI: with mcp-contain, against without";
    add(
        "set",
        draw::rows(title, "contained divided by bare", &set, |_| 1.0),
    );

    let is_distribution = |series: &Series| series.x == Series::ONE_IN;
    let latency: Vec<_> = series
        .iter()
        .map(|(_, series)| *series)
        .filter(|s| is_distribution(s))
        .collect();
    if !latency.is_empty() {
        add(
            "latency",
            draw::panels(
                "Distributions: what one in so many takes longer than",
                &latency,
            ),
        );
    }
    for harness in legend.harnesses() {
        let lines = series
            .iter()
            .filter(|(name, line)| *name == harness && !is_distribution(line));
        let lines: Vec<_> = lines.map(|(_, line)| *line).collect();
        if !lines.is_empty() {
            add(harness, draw::panels(legend.title(harness), &lines));
        }
    }
    Ok(pages)
}

fn records(directory: &Path) -> Result<Vec<Record>, Box<dyn Error>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory)? {
        files.push(entry?.path());
    }
    files.sort();
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file)?;
        Record::parse(&text).map_err(|error| format!("{}: {error}", file.display()).into())
    };
    files.iter().map(read).collect()
}

#[test]
fn what_is_committed_is_what_the_data_gives() {
    for (file, text) in pages().unwrap() {
        let committed = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            committed == text,
            "{} is stale: run tests/run charts",
            file.display()
        );
    }
}
