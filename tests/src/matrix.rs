//! The result: a table for people, and a verdict for programs.

use std::fmt;
use std::time::Duration;

use mcp_lifecycle_core::launch::TerminationSemantics;

use crate::ways::Way;

/// What the kit found out about a launcher. Its `Display` is the table.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Matrix {
    /// The launcher's name.
    pub launcher: String,
    /// What it declared.
    pub semantics: TerminationSemantics,
    /// The ways to end, one per column.
    pub columns: Vec<Way>,
    /// A fixture's name and its cells.
    pub rows: Vec<(&'static str, Vec<Verdict>)>,
    /// The experiments on what is declared.
    pub declared: Vec<(&'static str, Verdict)>,
    /// The seed of the random instants.
    pub seed: u64,
    /// How long it all took.
    pub took: Duration,
}

/// What came of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Everything held.
    Pass,
    /// It needs more reach than the launcher declares, and was not run.
    Beyond,
    /// The combination means nothing.
    NotApplicable,
    /// Something did not hold.
    Failed(
        /// What.
        String,
    ),
}

impl Matrix {
    pub(crate) fn new(launcher: &str, semantics: TerminationSemantics) -> Self {
        Self {
            launcher: launcher.to_owned(),
            semantics,
            columns: Vec::new(),
            rows: Vec::new(),
            declared: Vec::new(),
            seed: 0,
            took: Duration::ZERO,
        }
    }

    /// What did not hold: where, and what.
    pub fn failures(&self) -> Vec<(String, &str)> {
        let mut failures = Vec::new();
        for (fixture, cells) in &self.rows {
            for (way, verdict) in self.columns.iter().zip(cells) {
                if let Verdict::Failed(why) = verdict {
                    failures.push((format!("{fixture} x {way}"), why.as_str()));
                }
            }
        }
        for (experiment, verdict) in &self.declared {
            if let Verdict::Failed(why) = verdict {
                failures.push(((*experiment).to_owned(), why.as_str()));
            }
        }
        failures
    }

    /// The cell of a fixture and a way, if it is in the matrix.
    pub fn cell(&self, fixture: &str, way: Way) -> Option<&Verdict> {
        let (_, cells) = self.rows.iter().find(|(name, _)| *name == fixture)?;
        let column = self.columns.iter().position(|column| *column == way)?;
        cells.get(column)
    }

    /// Panics, with the whole table, when anything did not hold.
    ///
    /// # Panics
    ///
    /// See above.
    #[track_caller]
    pub fn assert(&self) {
        let failures = self.failures().len();
        assert!(failures == 0, "{failures} failures\n{self}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "ok",
            Self::Beyond => "beyond",
            Self::NotApplicable => "-",
            Self::Failed(_) => "FAILED",
        })
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAME: usize = 20;
        writeln!(
            f,
            "launcher {}: {}; end of file {}, polite signal {}; seed {}; {:.1?}",
            self.launcher,
            self.semantics.containment,
            yes_no(self.semantics.stdin_eof),
            yes_no(self.semantics.polite_signal),
            self.seed,
            self.took,
        )?;
        write!(f, "{:NAME$}", "")?;
        for way in &self.columns {
            write!(f, " {:12}", way.name())?;
        }
        writeln!(f)?;
        for (fixture, cells) in &self.rows {
            write!(f, "{fixture:NAME$}")?;
            for cell in cells {
                write!(f, " {cell:12}")?;
            }
            writeln!(f)?;
        }
        for (experiment, verdict) in &self.declared {
            writeln!(f, "{verdict:8} {experiment}")?;
        }
        for (place, why) in self.failures() {
            writeln!(f, "\n{place}: {why}")?;
        }
        Ok(())
    }
}

fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}
