//! The tables of the benchmarks: `docs/benchmarks/table.csv`, and what of it is short, for
//! `docs/benchmarks.md`. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use crate::data::Bar;
use crate::summary::Summary;

const BEGIN: &str = "<!-- drawn by `tests/run charts` -->\n";
const END: &str = "<!-- end -->\n";

/// The harnesses in their order, and what limits their figures: `docs/benchmarks/table.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Legend {
    harness: Vec<Harness>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Harness {
    name: String,
    title: String,
    #[serde(default)]
    limits: BTreeMap<String, String>,
}

impl Legend {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// What is not understood, and where it is.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The names of the harnesses, in the order of the table.
    pub fn harnesses(&self) -> impl Iterator<Item = &str> {
        self.harness.iter().map(|harness| harness.name.as_str())
    }

    /// The title of a harness.
    pub fn title(&self, name: &str) -> &str {
        let harness = self.harness.iter().find(|harness| harness.name == name);
        harness.map_or("", |harness| &harness.title)
    }
}

/// Puts the table into the page, between its marks.
///
/// # Errors
///
/// The page has no marks; or the legend and the figures do not fit.
pub fn insert(page: &str, legend: &Legend, summaries: &[Summary]) -> Result<String, String> {
    let begin = page
        .find(BEGIN)
        .ok_or("the page has no mark for the table")?
        + BEGIN.len();
    let end = page
        .find(END)
        .filter(|end| *end >= begin)
        .ok_or("the table has no end mark")?;
    Ok(format!(
        "{}{}{}",
        &page[..begin],
        table(legend, summaries)?,
        &page[end..]
    ))
}

/// The harnesses with their figures that have a bar or a peer. The others stay in the data.
fn shown<'a>(
    legend: &'a Legend,
    summaries: &'a [Summary],
) -> Result<Vec<(&'a Harness, Vec<&'a Summary>)>, String> {
    for summary in summaries {
        if !legend.harnesses().any(|name| name == summary.harness) {
            return Err(format!("the legend has no harness `{}`", summary.harness));
        }
    }
    let mut shown = Vec::new();
    for harness in &legend.harness {
        let of = summaries.iter().filter(|s| s.harness == harness.name);
        let rows: Vec<_> = of
            .filter(|s| s.last.bar().is_some() || s.last.peer.is_some())
            .collect();
        for name in harness.limits.keys() {
            if !rows.iter().any(|row| row.last.name == *name) {
                return Err(format!(
                    "no run of `{}` has the figure `{name}`",
                    harness.name
                ));
            }
        }
        shown.push((harness, rows));
    }
    Ok(shown)
}

fn table(legend: &Legend, summaries: &[Summary]) -> Result<String, String> {
    let mut text = String::from("| | bar | median | limited by |\n|---|---|---|---|\n");
    for (harness, rows) in shown(legend, summaries)? {
        let judged = rows.iter().filter_map(|row| row.is_reached());
        let (reached, all) = judged.fold((0, 0), |(reached, all), is| {
            (reached + usize::from(is), all + 1)
        });
        let _ = writeln!(
            text,
            "| **{}**: {reached} of {all} reached | | | |",
            harness.title
        );
        for row in rows.iter().filter(|row| row.is_reached() == Some(false)) {
            let [name, bar, median, .., limit] = cells(harness, row);
            let _ = writeln!(text, "| {name} | {bar} | {median} | {limit} |");
        }
    }
    Ok(text)
}

/// Every figure that has a bar or a peer, as a file of values.
///
/// # Errors
///
/// The legend and the figures do not fit.
pub fn csv(legend: &Legend, summaries: &[Summary]) -> Result<String, String> {
    let mut text =
        String::from("harness,figure,bar,median,spread,\"runs, load\",limited by,verdict\n");
    for (harness, rows) in shown(legend, summaries)? {
        for row in rows {
            let verdict = row
                .is_reached()
                .map(|is| if is { "reached" } else { "short" });
            let cells = cells(harness, row);
            let quoted = cells.iter().map(|cell| format!("\"{cell}\""));
            let quoted: Vec<_> = quoted.collect();
            let _ = writeln!(
                text,
                "{},{},{}",
                harness.name,
                quoted.join(","),
                verdict.unwrap_or_default()
            );
        }
    }
    Ok(text)
}

fn cells(harness: &Harness, summary: &Summary) -> [String; 6] {
    let Summary { last, values, .. } = summary;
    let unit = match last.value_unit() {
        "x" => "x".to_owned(),
        unit => format!(" {unit}"),
    };
    let ends = |values: &[f64]| match (values.first(), values.last()) {
        (Some(first), Some(last)) if first != last => {
            format!("{} to {}", short(*first), short(*last))
        }
        (Some(first), _) => short(*first),
        _ => "?".to_owned(),
    };
    let bar = match last.bar() {
        Some(Bar::AtMost(0.0)) => "none".to_owned(),
        bar => bar.map_or_else(String::new, |bar| bar.to_string()),
    };
    let spread = match values.len() {
        0 | 1 => String::new(),
        _ => ends(values),
    };
    [
        last.name.clone(),
        bar,
        format!("{}{unit}", short(summary.median())),
        spread,
        format!("{}, {}", values.len(), ends(&summary.loads)),
        harness.limits.get(&last.name).cloned().unwrap_or_default(),
    ]
}

/// Three digits, and no more zeros than it takes.
pub(crate) fn short(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size => (2 - size.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::figures;
    use crate::summary::tests::run;

    const LEGEND: &str = "[[harness]]\nname = \"h\"\ntitle = \"H\"\nlimits.a = \"the kernel\"\n";

    fn page(legend: &str) -> Result<String, String> {
        let runs = [run("1", "c", &[("a", 0.5)]), run("2", "c", &[("a", 2.25)])];
        let legend = Legend::parse(legend).unwrap();
        insert(
            &format!("x\n{BEGIN}old\n{END}y\n"),
            &legend,
            &figures(&runs),
        )
    }

    #[test]
    fn a_figure_that_is_short_is_on_the_page_with_its_limit() {
        let page = page(LEGEND).unwrap();
        assert!(page.contains("| **H**: 0 of 1 reached |"), "{page}");
        let row = "| a | ≤ 1 | 1.38 ms | the kernel |\n";
        assert!(page.contains(row), "{page}");
        assert!(page.starts_with("x\n") && page.ends_with("y\n") && !page.contains("old"));
    }

    #[test]
    fn a_figure_that_is_reached_is_in_the_file() {
        let runs = [run("1", "c", &[("a", 0.5)])];
        let csv = csv(&Legend::parse(LEGEND).unwrap(), &figures(&runs)).unwrap();
        let row = "h,\"a\",\"≤ 1\",\"0.5 ms\",\"\",\"1, 0.5\",\"the kernel\",reached\n";
        assert!(csv.ends_with(row), "{csv}");
    }

    #[test]
    fn a_legend_without_its_figure_is_told() {
        let error = page(&LEGEND.replace("limits.a", "limits.b")).unwrap_err();
        assert!(error.contains("`b`"), "{error}");
        let error = page(&LEGEND.replace("\"h\"", "\"g\"")).unwrap_err();
        assert!(error.contains("`h`"), "{error}");
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (1234.5, "1234"),
            (1.0, "1"),
            (0.0512, "0.0512"),
            (12.34, "12.3"),
            (0.9, "0.9"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }
}
