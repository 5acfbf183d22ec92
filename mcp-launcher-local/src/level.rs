//! The caller's choice of the mechanism that holds the processes of a server together.

/// The mechanism that holds the processes of a server together. On Windows there is only a job
/// object, which gives the guarantees of all of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// A guardian: a small process between host and server that ends every descendant, also when
    /// the host is killed. Linux; elsewhere, and where the system refuses it, a process group,
    /// which the launcher's semantics then state.
    #[default]
    Guardian,
    /// A guardian, and a PID namespace for the server, which the kernel ends even when the guardian
    /// is killed. Linux, where the user may create one; elsewhere as [`Guardian`](Self::Guardian).
    ///
    /// The server sees pids of its own, while `/proc` still shows the host's: programs that look
    /// themselves up there (`ps`, pid files) are misled.
    PidNamespace,
    /// A process group alone: reaches the processes that do not leave it, and none when the host is
    /// killed.
    ProcessGroup,
}
