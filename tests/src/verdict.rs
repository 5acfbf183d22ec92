//! The verdict on a cell.

use std::fmt;

use serde_json::{Value, json};

/// The result of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything held.
    Passed,
    /// Something did not hold.
    Failed {
        /// The name of what is broken: the same in every cell that it breaks.
        rule: String,
        /// The observation, the sentence of the contract, and what to do.
        why: String,
    },
    /// The launcher does not promise it, or the combination means nothing.
    NotApplicable(String),
    /// It was not tried, and why.
    Skipped(String),
}

/// Begins the line by which a cell's process tells its verdict.
const MARK: &str = "mcp-conformance-verdict ";

impl Verdict {
    pub(crate) fn failed(rule: &str, why: impl Into<String>) -> Self {
        let (rule, why) = (rule.to_owned(), why.into());
        Self::Failed { rule, why }
    }

    /// The line that [`told_in`](Self::told_in) finds.
    pub(crate) fn line(&self) -> String {
        let (word, rule, why) = match self {
            Self::Passed => ("passed", "", ""),
            Self::Failed { rule, why } => ("failed", &**rule, &**why),
            Self::NotApplicable(why) => ("not applicable", "", &**why),
            Self::Skipped(why) => ("skipped", "", &**why),
        };
        format!("{MARK}{}", json!([word, rule, why]))
    }

    /// The verdict in what a process has printed, if there is one.
    pub(crate) fn told_in(output: &str) -> Option<Self> {
        let line = output
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(MARK))?;
        let told: Value = serde_json::from_str(line).ok()?;
        let text = |at: usize| told[at].as_str().unwrap_or_default().to_owned();
        match &*text(0) {
            "passed" => Some(Self::Passed),
            "failed" => Some(Self::Failed {
                rule: text(1),
                why: text(2),
            }),
            "not applicable" => Some(Self::NotApplicable(text(2))),
            "skipped" => Some(Self::Skipped(text(2))),
            _ => None,
        }
    }
}

/// The word in the table.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "ok",
            Self::Failed { .. } => "FAILED",
            Self::NotApplicable(_) => "-",
            Self::Skipped(_) => "skipped",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    #[test]
    fn what_a_process_tells_is_what_it_found() {
        for verdict in [
            Verdict::Passed,
            Verdict::failed("proof", "two\nlines"),
            Verdict::NotApplicable("why".to_owned()),
            Verdict::Skipped("why".to_owned()),
        ] {
            let output = format!("noise\n{}\nmore noise", verdict.line());
            assert_eq!(Verdict::told_in(&output), Some(verdict));
        }
        assert_eq!(Verdict::told_in("noise"), None);
    }
}
