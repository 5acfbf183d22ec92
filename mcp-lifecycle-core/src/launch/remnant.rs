//! Names for what is left, or was left, of a server.

use std::borrow::Cow;
use std::fmt;

/// One thing that belongs to a server: a process, a container, a remote process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Remnant {
    /// The kind of thing it is.
    pub kind: RemnantKind,
    /// Its identifier in its own world: a pid, a container id.
    pub id: String,
    /// Its name for people: the process name, the container's name.
    pub name: String,
}

/// The kinds of [`Remnant`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemnantKind {
    /// A process on this machine.
    Process,
    /// A container.
    Container,
    /// A process on another machine.
    RemoteProcess,
    /// A host's own record of its servers: a ledger, a lease.
    Record,
    /// Something else, in a word or two: `"pod"`, `"microVM"`.
    Other(Cow<'static, str>),
}

impl Remnant {
    /// A thing of any kind.
    pub fn new(kind: RemnantKind, id: impl Into<String>, name: impl Into<String>) -> Self {
        let (id, name) = (id.into(), name.into());
        Self { kind, id, name }
    }

    /// A process on this machine.
    pub fn process(pid: u32, name: impl Into<String>) -> Self {
        Self::new(RemnantKind::Process, pid.to_string(), name)
    }

    /// A container.
    pub fn container(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(RemnantKind::Container, id, name)
    }

    /// A process on another machine, by the name its executor knows it by.
    pub fn remote_process(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(RemnantKind::RemoteProcess, id, name)
    }

    /// A host's own record of its servers, by its path; `name` says whose
    /// it is.
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

/// A list of remnants as one line of text.
pub(crate) struct RemnantList<'a>(pub(crate) &'a [Remnant]);

impl fmt::Display for RemnantList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough to act on; a fork bomb has thousands.
        const SHOWN: usize = 8;
        for (i, remnant) in self.0.iter().take(SHOWN).enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{remnant}")?;
        }
        match self.0.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}
