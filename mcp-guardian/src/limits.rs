//! Limits on what the processes of one server use together.

/// Limits that the kernel keeps; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory in bytes. If they need more, the kernel ends all of them.
    pub memory: Option<u64>,
    /// The number of processes and threads. Beyond it, they can start no more.
    pub pids: Option<u64>,
    /// Processor time, in thousandths of one processor. Beyond it, they wait.
    pub cpus: Option<u64>,
}

impl Limits {
    /// Returns whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the controllers of cgroups that keep them.
    #[cfg(target_os = "linux")]
    pub(crate) fn controllers(&self) -> Vec<&'static str> {
        let wanted = [
            (self.memory, "memory"),
            (self.pids, "pids"),
            (self.cpus, "cpu"),
        ];
        let wanted = wanted.into_iter().filter(|(limit, _)| limit.is_some());
        wanted.map(|(_, controller)| controller).collect()
    }
}
