//! The table of `docs/benchmarks.md`. Pure.

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

fn table(legend: &Legend, summaries: &[Summary]) -> Result<String, String> {
    let mut text = String::from(
        "| | bar | median | spread | runs, load | | limited by |\n|---|---|---|---|---|---|---|\n",
    );
    for summary in summaries {
        if !legend.harnesses().any(|name| name == summary.harness) {
            return Err(format!("the legend has no harness `{}`", summary.harness));
        }
    }
    for harness in &legend.harness {
        let rows: Vec<_> = summaries
            .iter()
            .filter(|s| s.harness == harness.name)
            .collect();
        for name in harness.limits.keys() {
            if !rows.iter().any(|row| row.last.name == *name) {
                return Err(format!(
                    "no run of `{}` has the figure `{name}`",
                    harness.name
                ));
            }
        }
        let _ = writeln!(text, "| **{}** | | | | | | |", harness.title);
        // What has neither a bar nor a peer is in the data, and there it stays.
        for summary in rows
            .iter()
            .filter(|s| s.last.bar().is_some() || s.last.peer.is_some())
        {
            let limit = harness
                .limits
                .get(&summary.last.name)
                .map_or("", String::as_str);
            text += &row(summary, limit);
        }
    }
    Ok(text)
}

fn row(summary: &Summary, limit: &str) -> String {
    let Summary { last, values, .. } = summary;
    let unit = if last.value_unit() == "x" {
        "x".to_owned()
    } else {
        format!(" {}", last.value_unit())
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
    let verdict = match (summary.is_reached(), summary.reached()) {
        (Some(is_reached), Some(reached)) => {
            let word = if is_reached { "reached" } else { "**short**" };
            match reached {
                0 => word.to_owned(),
                all if all == values.len() => word.to_owned(),
                some => format!("{word}, {some} of {}", values.len()),
            }
        }
        _ => String::new(),
    };
    let spread = if values.len() > 1 {
        ends(values)
    } else {
        String::new()
    };
    format!(
        "| {} | {bar} | {}{unit} | {spread} | {}, {} | {verdict} | {limit} |\n",
        last.name,
        short(summary.median()),
        values.len(),
        ends(&summary.loads),
    )
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
        let runs = [run("1", "c", &[("a", 0.5)]), run("2", "c", &[("a", 1.25)])];
        let legend = Legend::parse(legend).unwrap();
        insert(
            &format!("x\n{BEGIN}old\n{END}y\n"),
            &legend,
            &figures(&runs),
        )
    }

    #[test]
    fn a_row_says_the_median_the_spread_and_whether_it_is_enough() {
        let page = page(LEGEND).unwrap();
        let row = "| a | ≤ 1 | 0.875 ms | 0.5 to 1.25 | 2, 0.5 | reached, 1 of 2 | the kernel |\n";
        assert!(page.contains(row), "{page}");
        assert!(page.starts_with("x\n") && page.ends_with("y\n") && !page.contains("old"));
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
