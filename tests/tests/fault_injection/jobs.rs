//! The jobs that there are to try.

use std::sync::atomic::{AtomicU32, Ordering};

use mcp_launcher_local::Isolation;
use nix::libc;

use crate::host::Way;
use crate::injector::Target;

/// A user who has no process: whoever looks for a server of theirs is not kept
/// waiting by those of other workers.
pub(crate) fn nobody() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    COUNT.fetch_add(1, Ordering::Relaxed) * 10_000_000 + std::process::id()
}

const LEVELS: [(&str, Isolation); 3] = [
    ("guardian", Isolation::Guardian),
    ("namespace", Isolation::PidNamespace),
    ("group", Isolation::ProcessGroup),
];

const USERS: [(&str, bool); 2] = [("root", false), ("nobody", true)];

const TARGETS: [(&str, Target); 2] = [("host", Target::Host), ("guardian", Target::Guardian)];

pub(crate) const WAYS: [(&str, Way); 3] = [
    ("ordered", Way::Ordered),
    ("dropped", Way::Dropped),
    ("missing", Way::Missing),
];

/// Calls that a sandbox may refuse for good, and the text that the launch has to give: what
/// the server got instead, or why it was not launched.
pub(crate) const REFUSALS: [(libc::c_long, &str); 6] = [
    (libc::SYS_signalfd4, "process group (*signalfd"),
    (libc::SYS_prctl, "process group (*PR_SET_CHILD_SUBREAPER"),
    (libc::SYS_socketpair, "process group (*its socket"),
    (libc::SYS_pidfd_open, "pidfd_open is refused"),
    (libc::SYS_memfd_create, "contained guardian"),
    (libc::SYS_close_range, "contained guardian"),
];

/// The treatment of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trial {
    /// Each one fails in turn.
    Each(Way, Target),
    /// All of one kind are refused, as in a sandbox: [`REFUSALS`].
    Refused,
    /// Whatever can be interrupted is, every other time.
    Interrupted,
    /// Each file is beyond the limit on sizes.
    Oversized,
}

/// A worker's work, by its name.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) isolation: Isolation,
    /// By a user without any rights.
    pub(crate) as_nobody: bool,
    pub(crate) trial: Trial,
    /// Among how many workers its calls are dealt out.
    pub(crate) parts: usize,
}

/// Everything; with those of another user, which take root.
pub(crate) fn jobs(others: bool) -> Vec<Job> {
    let mut jobs = Vec::new();
    // The longest ones first.
    for (level, isolation) in LEVELS.into_iter().rev() {
        for (user, as_nobody) in USERS {
            if as_nobody && !others {
                continue;
            }
            let mut add = |trial, name: String, parts| {
                jobs.push(Job {
                    name: format!("{level}.{user}.{name}"),
                    isolation,
                    as_nobody,
                    trial,
                    parts,
                });
            };
            for (way_name, way) in WAYS {
                for (target_name, target) in TARGETS {
                    let name = format!("{way_name}.{target_name}");
                    match (target, isolation) {
                        (Target::Guardian, Isolation::ProcessGroup) => {}
                        (Target::Guardian, _) => add(Trial::Each(way, target), name, 2),
                        // Nobody is listed before the drop has ended it.
                        (Target::Host, Isolation::ProcessGroup) if way == Way::Dropped => {
                            add(Trial::Each(way, target), name, 1);
                        }
                        (Target::Host, _) => add(Trial::Each(way, target), name, 6),
                    }
                }
            }
            add(Trial::Interrupted, "interrupted".to_owned(), 1);
            add(Trial::Oversized, "oversized".to_owned(), 1);
            if isolation == Isolation::Guardian {
                add(Trial::Refused, "refused".to_owned(), 1);
            }
        }
    }
    jobs
}
