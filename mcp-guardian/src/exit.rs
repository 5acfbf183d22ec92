//! How a process ended.

/// The exit status of a tree's main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It has ended with an unknown status.
    Unknown,
}
