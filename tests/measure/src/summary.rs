//! What the runs say together: for each figure, those of the newest code. Pure.

use crate::data::{Bar, Figure, Record, Series};

/// One figure over the runs of the newest code that has measured it.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The harness.
    pub harness: String,
    /// The figure as the last run has it.
    pub last: Figure,
    /// Its values in the runs of the newest code, in ascending order.
    pub values: Vec<f64>,
    /// Its values in the runs before.
    pub older: Vec<f64>,
    /// The load at the beginning of these runs, in ascending order, as far as it is known.
    pub loads: Vec<f64>,
}

impl Summary {
    /// The value in the middle, or the mean of the two that are.
    pub fn median(&self) -> f64 {
        let at = |index: usize| self.values.get(index).copied().unwrap_or(f64::NAN);
        let half = self.values.len() / 2;
        if self.values.len().is_multiple_of(2) {
            f64::midpoint(at(half.saturating_sub(1)), at(half))
        } else {
            at(half)
        }
    }

    /// Returns whether the median reaches the bar; `None` without a bar.
    pub fn is_reached(&self) -> Option<bool> {
        self.last
            .bar()
            .map(|bar: Bar| bar.is_reached(self.median()))
    }
}

/// Sums up the figures, a harness after the other, each in the order of its last run.
pub fn figures(records: &[Record]) -> Vec<Summary> {
    let mut summaries: Vec<Summary> = Vec::new();
    for record in newest_first(records) {
        for last in &record.figures {
            let is_known = |s: &Summary| s.harness == record.harness && s.last.name == last.name;
            if summaries.iter().any(is_known) {
                continue;
            }
            let mut summary = Summary {
                harness: record.harness.clone(),
                last: last.clone(),
                values: Vec::new(),
                older: Vec::new(),
                loads: Vec::new(),
            };
            for run in records.iter().filter(|run| run.harness == record.harness) {
                for figure in run.figures.iter().filter(|figure| figure.name == last.name) {
                    if run.code == record.code {
                        summary.values.push(figure.value);
                        summary.loads.extend(run.load.first());
                    } else {
                        summary.older.push(figure.value);
                    }
                }
            }
            summary.values.sort_by(f64::total_cmp);
            summary.loads.sort_by(f64::total_cmp);
            summaries.push(summary);
        }
    }
    summaries.sort_by(|a, b| a.harness.cmp(&b.harness));
    summaries
}

/// The lines of the newest code that has each, by harness.
pub fn series(records: &[Record]) -> Vec<(&str, &Series)> {
    let mut lines: Vec<(&Record, &Series)> = Vec::new();
    for record in newest_first(records) {
        for series in &record.series {
            let is_older = |(run, line): &(&Record, &Series)| {
                run.harness == record.harness
                    && (&line.panel, &line.line) == (&series.panel, &series.line)
                    && run.code != record.code
            };
            if !lines.iter().any(is_older) {
                lines.push((record, series));
            }
        }
    }
    lines
        .into_iter()
        .map(|(record, series)| (record.harness.as_str(), series))
        .collect()
}

fn newest_first(records: &[Record]) -> Vec<&Record> {
    // Of one day, the last file is the newest.
    let mut records: Vec<_> = records.iter().rev().collect();
    records.sort_by(|a, b| b.date.cmp(&a.date));
    records
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(date: &str, code: &str, figures: &[(&str, f64)]) -> Record {
        let figure = |(name, value): &(&str, f64)| Figure::ours(*name, *value, "ms").at_most(1.0);
        Record {
            date: date.into(),
            harness: "h".into(),
            code: code.into(),
            build: "release".into(),
            command: String::new(),
            kernel: None,
            cpus: None,
            load: vec![0.5],
            note: None,
            figures: figures.iter().map(figure).collect(),
            series: Vec::new(),
        }
    }

    #[test]
    fn the_newest_code_counts_and_what_it_has_not_measured_is_what_was_before() {
        let runs = [
            run("1", "old", &[("a", 9.0), ("b", 2.0)]),
            run("2", "new", &[("a", 0.5)]),
            run("3", "new", &[("a", 2.5)]),
        ];
        let all = figures(&runs);
        let of = |name: &str| all.iter().find(|s| s.last.name == name).unwrap();
        assert_eq!(
            (of("a").values.clone(), of("a").older.clone()),
            (vec![0.5, 2.5], vec![9.0])
        );
        assert_eq!(of("a").median(), 1.5);
        assert_eq!(of("a").is_reached(), Some(false));
        assert_eq!(of("b").values, [2.0]);
    }
}
