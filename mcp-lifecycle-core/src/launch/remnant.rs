use std::borrow::Cow;
use std::fmt;

/// A part of a server: a process, a container, a remote process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the kind has its name")]
pub enum RemnantKind {
    Process,
    Container,
    RemoteProcess,
    /// A host's record of its servers: a ledger, a locked file.
    Record,
    /// Something else: `"pod"`, `"microVM"`.
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

impl fmt::Display for Remnant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            RemnantKind::Process => "process",
            RemnantKind::Container => "container",
            RemnantKind::RemoteProcess => "remote process",
            RemnantKind::Record => "record",
            RemnantKind::Other(kind) => kind,
        };
        write!(f, "{kind} {} ({})", self.id, self.name)
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
