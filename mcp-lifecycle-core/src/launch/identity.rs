use std::fmt;

/// The identity of one running server, for logs, reports and operators. Only a name: no launcher
/// signals or removes a server by these numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum ServerIdentity {
    Process {
        pid: u32,
        /// Its start time, if known: on Linux in clock ticks since boot (`/proc/PID/stat` field
        /// 22), on Windows in units of 100 ns since 1601.
        start_time: Option<u64>,
    },
    Container {
        /// The engine's full ID.
        id: String,
        name: String,
    },
    Remote {
        /// A URL or a command, without secrets.
        executor: String,
        process_id: String,
    },
    /// Something else, of a third party's launcher.
    Other(String),
}

impl ServerIdentity {
    /// Creates the identity of a process on this machine.
    pub fn process(pid: u32, start_time: Option<u64>) -> Self {
        Self::Process { pid, start_time }
    }

    /// Returns the main process's pid, if the server is a process on this machine.
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
