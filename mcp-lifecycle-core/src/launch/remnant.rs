use std::borrow::Cow;
use std::fmt;

/// A part of a server: a process, a container, a remote process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, displaydoc::Display)]
#[displaydoc("{kind} {id} ({name})")]
#[non_exhaustive]
pub struct Remnant {
    /// The kind of part.
    pub kind: RemnantKind,
    /// Its native identifier: a pid, a container ID.
    pub id: String,
    /// Its readable name: the process name, the container's name.
    pub name: String,
}

/// The kinds of [`Remnant`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the kind has its name")]
pub enum RemnantKind {
    #[displaydoc("process")]
    Process,
    #[displaydoc("container")]
    Container,
    #[displaydoc("remote process")]
    RemoteProcess,
    /// A host's record of its servers: a ledger, a locked file.
    #[displaydoc("record")]
    Record,
    /// Something else: `"pod"`, `"microVM"`.
    #[displaydoc("{0}")]
    Other(Cow<'static, str>),
}

impl Remnant {
    /// Creates a remnant of any kind.
    pub fn new(kind: RemnantKind, id: impl Into<String>, name: impl Into<String>) -> Self {
        let (id, name) = (id.into(), name.into());
        Self { kind, id, name }
    }

    /// Creates a process on this machine.
    pub fn process(pid: u32, name: impl Into<String>) -> Self {
        Self::new(RemnantKind::Process, pid.to_string(), name)
    }

    /// Creates a container.
    pub fn container(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(RemnantKind::Container, id, name)
    }

    /// Creates a process on another machine, by its executor's name for it.
    pub fn remote_process(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(RemnantKind::RemoteProcess, id, name)
    }

    /// Creates a host's record of its servers, by its path; `name` tells its owner.
    pub fn record(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(RemnantKind::Record, id, name)
    }
}

/// Lists the first items; a fork bomb has thousands.
pub(crate) fn list<T: fmt::Display>(items: &[T], separator: &str) -> String {
    const SHOWN: usize = 10;
    let shown = items.iter().take(SHOWN).map(ToString::to_string);
    let mut list = shown.collect::<Vec<_>>().join(separator);
    if let Some(more @ 1..) = items.len().checked_sub(SHOWN) {
        list.push_str(&format!(" and {more} more"));
    }
    list
}

/// The result of [`ServerLauncher::reap_orphans`](crate::launch::ServerLauncher::reap_orphans).
/// Each process or container is in one list only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReapReport {
    /// Ended and proven gone.
    pub ended: Vec<Remnant>,
    /// Belongs to a dead host but could not be ended.
    pub failed: Vec<Remnant>,
    /// Left alone: the host lives, or cannot be determined.
    pub spared: Vec<Remnant>,
    /// Could not be examined and may be an orphan. Its record is kept for the next search.
    pub unknown: Vec<UnknownRemnant>,
}

/// Something that a search could not examine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, displaydoc::Display)]
#[displaydoc("{what}: {why}")]
#[non_exhaustive]
pub struct UnknownRemnant {
    /// A process, a container, or the record that a host left of its servers.
    pub what: Remnant,
    /// The reason.
    pub why: String,
}

impl ReapReport {
    /// Creates an empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether every orphan was found and ended: nothing failed or is unknown.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.unknown.is_empty()
    }
}

impl UnknownRemnant {
    /// Creates an entry for `what`.
    pub fn new(what: Remnant, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { what, why }
    }
}

/// Prints counts and names on one line; the spared are only counted.
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
        part(self.ended.len(), "ended", list(&self.ended, ", "))?;
        part(self.failed.len(), "not ended", list(&self.failed, ", "))?;
        part(self.unknown.len(), "unknown", list(&self.unknown, ", "))?;
        part(self.spared.len(), "spared", String::new())
    }
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
