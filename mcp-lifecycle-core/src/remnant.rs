//! Names for what is left, or was left, of a server.

use std::fmt;

/// One thing that belongs to a server: a process, a container, a remote process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Remnant {
    /// What kind of thing it is.
    pub kind: RemnantKind,
    /// Its identifier in its own world: a pid, a container id.
    pub id: String,
    /// Its name for people: the process name, the container's name.
    pub name: String,
}

/// What kind of thing a [`Remnant`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemnantKind {
    /// A process on this machine.
    Process,
    /// A container.
    Container,
    /// A process on another machine.
    RemoteProcess,
    /// What a host wrote down about its servers: a ledger, a lease.
    Record,
}

impl Remnant {
    /// A process on this machine.
    pub fn process(pid: u32, name: impl Into<String>) -> Self {
        Self {
            kind: RemnantKind::Process,
            id: pid.to_string(),
            name: name.into(),
        }
    }

    /// A container.
    pub fn container(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind: RemnantKind::Container,
            id: id.into(),
            name: name.into(),
        }
    }

    /// A process on another machine, by the name its executor knows it by.
    pub fn remote_process(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind: RemnantKind::RemoteProcess,
            id: id.into(),
            name: name.into(),
        }
    }

    /// What a host wrote down about its servers, by its path; `name` says whose
    /// it is.
    pub fn record(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind: RemnantKind::Record,
            id: id.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Remnant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RemnantKind::Process => "process",
            RemnantKind::Container => "container",
            RemnantKind::RemoteProcess => "remote process",
            RemnantKind::Record => "record",
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

/// The proof that [`ProcessTerminator::gone`](crate::ProcessTerminator::gone) gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gone {
    /// What outlived the main process and had to be ended, as far as it has names.
    pub swept: Vec<Remnant>,
    /// How many there were; at least `swept.len()`.
    pub swept_count: usize,
    /// What the launcher found, belongs to the server, and by policy was left
    /// alone: a detached container that the user wants to keep.
    pub reported: Vec<Remnant>,
}

impl Gone {
    /// Nothing had to be swept.
    pub fn clean() -> Self {
        Self::default()
    }

    /// These had to be swept.
    pub fn swept(swept: Vec<Remnant>) -> Self {
        Self {
            swept_count: swept.len(),
            swept,
            reported: Vec::new(),
        }
    }
}
