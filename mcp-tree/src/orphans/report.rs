//! The result of a search for orphans.

/// A process, or a host's record of its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields have their names")]
pub enum Remnant {
    Process {
        pid: u32,
        name: String,
    },
    /// A record, by its path; `name` tells its owner.
    Record {
        id: String,
        name: String,
    },
}

/// Something that could not be examined, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields have their names")]
pub struct Unknown {
    pub what: Remnant,
    pub why: String,
}

/// The result of a search for orphans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReapReport {
    /// Orphans that have ended.
    pub ended: Vec<Remnant>,
    /// Orphans that may still live.
    pub failed: Vec<Remnant>,
    /// Processes that were left alone, because they may be used.
    pub spared: Vec<Remnant>,
    /// A process, ledger or directory that could not be examined.
    pub unknown: Vec<Unknown>,
}

impl Remnant {
    #[cfg(target_os = "linux")]
    pub(super) fn record(id: impl Into<String>, name: impl Into<String>) -> Self {
        let (id, name) = (id.into(), name.into());
        Self::Record { id, name }
    }
}

impl Unknown {
    #[cfg(target_os = "linux")]
    pub(super) fn new(what: Remnant, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { what, why }
    }
}
