//! The result of a search for orphans.

use std::fmt;

use super::remnant::Remnant;

/// The result of [`ServerLauncher::reap_orphans`](crate::launch::ServerLauncher::reap_orphans).
/// Each process or container is in one list only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReapReport {
    /// Ended and proven gone.
    pub ended: Vec<Remnant>,
    /// Belongs to a dead host but could not be ended.
    pub failed: Vec<Remnant>,
    /// Remnants that were not touched: the host lives, or it cannot be told whose it is.
    pub spared: Vec<Remnant>,
    /// Could not be looked at, so that nobody knows whether it is an orphan.
    ///
    /// Whatever is on record about it stays on record, and the next search
    /// tries again.
    pub unknown: Vec<UnknownRemnant>,
}

/// Something that a search could not look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct UnknownRemnant {
    /// A process, a container, or the record that a host left of its servers.
    pub what: Remnant,
    /// The reason it could not be looked at, in words.
    pub why: String,
}

impl ReapReport {
    /// An empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether every orphan was found and ended: nothing has failed and nothing
    /// is unknown.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.unknown.is_empty()
    }
}

impl UnknownRemnant {
    /// `what` could not be looked at for this reason.
    pub fn new(what: Remnant, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { what, why }
    }
}

/// `process 42 (node): its environment cannot be read: Permission denied`.
impl fmt::Display for UnknownRemnant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// One line that counts, with the names of all but the spared; `nothing found`
/// for an empty report.
impl fmt::Display for ReapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("nothing found");
        }
        let mut separator = "";
        let mut part = |count: usize, what: &str, names: String| {
            if count == 0 {
                return Ok(());
            }
            write!(f, "{separator}{count} {what}")?;
            separator = "; ";
            match names.is_empty() {
                true => Ok(()),
                false => write!(f, ": {names}"),
            }
        };
        part(self.ended.len(), "ended", list(&self.ended))?;
        part(self.failed.len(), "not ended", list(&self.failed))?;
        part(self.unknown.len(), "unknown", list(&self.unknown))?;
        part(self.spared.len(), "spared", String::new())
    }
}

/// As many as people read.
const NAMED: usize = 10;

fn list<T: fmt::Display>(items: &[T]) -> String {
    let named = items.iter().take(NAMED).map(ToString::to_string);
    let mut names = named.collect::<Vec<_>>().join(", ");
    if items.len() > NAMED {
        names.push_str(&format!(" and {} more", items.len() - NAMED));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_as_a_sentence() {
        let mut report = ReapReport::new();
        assert_eq!(report.to_string(), "nothing found");
        assert!(report.is_complete());
        report.spared.push(Remnant::process(7, "bystander"));
        assert_eq!(report.to_string(), "1 spared");
        report.ended.push(Remnant::process(42, "node"));
        let record = Remnant::record("/run/mcp-lifecycle/1.ledger", "host 5");
        report.unknown.push(UnknownRemnant::new(record, "no sight"));
        assert_eq!(
            report.to_string(),
            "1 ended: process 42 (node); 1 unknown: record /run/mcp-lifecycle/1.ledger (host 5): \
             no sight; 1 spared"
        );
        assert!(!report.is_complete());
    }

    #[test]
    fn a_long_list_is_cut() {
        let mut report = ReapReport::new();
        report.failed = (2..32).map(|pid| Remnant::process(pid, "x")).collect();
        let text = report.to_string();
        assert!(text.ends_with("process 11 (x) and 20 more"), "{text}");
    }
}
