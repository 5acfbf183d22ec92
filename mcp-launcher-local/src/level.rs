//! Choices of the caller: the mechanism that holds the processes of a server together, and its limits.

/// The mechanism that holds the processes of a server together.
///
/// On Windows there is one, a job object, whatever is chosen: it gives what all of these do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// A guardian: a small process between host and server that ends every
    /// descendant, also those that left the process group, and also when the
    /// host is killed. Linux; on macOS, where the host calls
    /// [`serve_as_guardian`](crate::serve_as_guardian), with less
    /// reach. Elsewhere, and where the system refuses it, a
    /// process group, which the launcher's semantics then say.
    #[default]
    Guardian,
    /// A guardian, and a PID namespace for the server: the kernel ends all of
    /// it when the guardian ends, even when that is killed. Linux, where the
    /// user may make one; elsewhere as [`Guardian`](Self::Guardian).
    ///
    /// The server sees pids of its own, while `/proc` still shows the host's:
    /// what looks itself up there (`ps`, pid files) is led astray.
    PidNamespace,
    /// A process group alone: reaches whoever stays in it, and nothing when
    /// the host is killed.
    ProcessGroup,
}

/// The most that a server and all that it starts may use together.
///
/// Kept by the kernel, where there is a job object: Windows. Elsewhere a launch with a limit fails,
/// for nobody would keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Limits {
    /// Memory that is committed, in bytes: more is refused to the program that asks for it.
    pub memory: Option<u64>,
    /// Processes at one time: one more is not started.
    pub processes: Option<u32>,
}

impl Limits {
    /// Sets the limit of memory, in bytes.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the limit of processes.
    #[must_use]
    pub fn with_processes(mut self, processes: u32) -> Self {
        self.processes = Some(processes);
        self
    }
}
