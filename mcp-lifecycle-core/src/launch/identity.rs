//! The identity of a running server, beyond a bare pid.

use std::fmt;

/// The identity of one running server, for logs, reports and operators.
///
/// The identity names the server; what signals or removes it is held by the launcher
/// (a pidfd, a cgroup, a container id with owner labels), never looked up by
/// these numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerIdentity {
    /// A process on this machine.
    Process {
        /// The main process.
        pid: u32,
        /// The time when it started, where the system tells: on Linux in clock ticks since boot
        /// (`/proc/PID/stat` field 22), on Windows in units of 100 ns since 1601.
        start_time: Option<u64>,
    },
    /// A container.
    Container {
        /// The engine's full id.
        id: String,
        /// The name we gave it.
        name: String,
    },
    /// A process on another machine.
    Remote {
        /// The executor, as a URL or command without secrets.
        executor: String,
        /// The name of the process there.
        process_id: String,
    },
    /// Something else, by a third party's launcher.
    Other(
        /// The launcher's name for it.
        String,
    ),
}

impl ServerIdentity {
    /// A process on this machine.
    pub fn process(pid: u32, start_time: Option<u64>) -> Self {
        Self::Process { pid, start_time }
    }

    /// The number of the main process, if the server is a process on this machine.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Process { pid, .. } => Some(*pid),
            _ => None,
        }
    }
}

impl fmt::Display for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, .. } => write!(f, "pid {pid}"),
            Self::Container { id, name } => {
                let short = id.get(..12).unwrap_or(id);
                write!(f, "container {short} ({name})")
            }
            Self::Remote {
                executor,
                process_id,
            } => write!(f, "{process_id} at {executor}"),
            Self::Other(name) => f.write_str(name),
        }
    }
}
