//! Which call fails: whose it is, and whether it is its turn.

use std::collections::{HashMap, HashSet};
use std::fs;

use mcp_launcher_local::Isolation;
use nix::errno::Errno;
use nix::libc::{self, c_long};
use nix::sys::signal::Signal;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, FsType, PROC_SUPER_MAGIC, statfs};
use nix::unistd::Pid;

use crate::faults;
use crate::processes::{parent_of, status};
use crate::seccomp::{self, Call};

/// File systems whose files have no size.
const WITHOUT_SIZES: [FsType; 3] = [PROC_SUPER_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC];

/// Whose calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// All threads of the host.
    Host,
    /// The guardian's program: from its birth to the server's exec.
    Guardian,
}

/// A fault to inject.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Call {
        target: Target,
        /// Counted from 0; of the calls that can fail.
        call: usize,
        /// Which of the plausible errors, counted around.
        error: usize,
    },
    /// All calls with this number.
    Refused(c_long),
    /// Every other one of the calls that can be interrupted, of each thread and kind.
    Interrupted,
    /// All writes to files, as beyond a limit on their size: they fail, and the kernel sends
    /// SIGXFSZ.
    Oversized,
}

/// The calls that were made to fail.
#[derive(Debug, Default)]
pub(crate) struct Injected {
    /// How many calls.
    pub(crate) count: usize,
    /// The last one and its error.
    pub(crate) last: Option<String>,
    /// How many errors are plausible for it.
    pub(crate) errors: usize,
}

/// The caller of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Host,
    Guardian,
    /// The server's program, which is no concern of ours.
    Server,
}

impl Caller {
    fn of(target: Target) -> Self {
        match target {
            Target::Host => Self::Host,
            Target::Guardian => Self::Guardian,
        }
    }
}

/// Decides what each call is answered.
#[derive(Debug)]
pub(crate) struct Injector {
    host: Pid,
    isolation: Isolation,
    fault: Option<Fault>,
    /// Whether calls fail at present.
    pub(crate) is_on: bool,
    count: usize,
    callers: HashMap<u32, Caller>,
    /// Threads of which the next call of a kind is spared.
    spared: HashSet<(u32, c_long)>,
    pub(crate) injected: Injected,
}

impl Injector {
    pub(crate) fn new(host: Pid, isolation: Isolation, fault: Option<Fault>) -> Self {
        Self {
            host,
            isolation,
            fault,
            is_on: false,
            count: 0,
            callers: HashMap::new(),
            spared: HashSet::new(),
            injected: Injected::default(),
        }
    }

    /// The error that a call is answered with, if it is to fail.
    pub(crate) fn fault_of(&mut self, call: &Call) -> Option<i32> {
        let caller = self.caller(call);
        let fault = self.fault.filter(|_| self.is_on)?;
        let mut errors = faults::plausible(call);
        if errors.contains(&libc::EFBIG) && !has_limited_size(call) {
            errors = &errors[..errors.len() - 1];
        }
        if caller == Caller::Server || errors.is_empty() {
            return None;
        }
        let errno = match fault {
            Fault::Refused(number) => (number == call.number).then_some(libc::EPERM),
            _ if self.is_of_the_runtime(call) => None,
            Fault::Interrupted => self.interruption_of(call, errors),
            Fault::Oversized => errors.contains(&libc::EFBIG).then_some(libc::EFBIG),
            Fault::Call {
                target,
                call,
                error,
            } if caller == Caller::of(target) => {
                let number = self.count;
                self.count += 1;
                (number == call).then(|| errors[error % errors.len()])
            }
            Fault::Call { .. } => None,
        }?;
        let (name, error) = (faults::name(call.number), Errno::from_raw(errno));
        self.injected.count += 1;
        self.injected.errors = errors.len();
        self.injected.last = Some(format!("{name}: {error}"));
        Some(errno)
    }

    /// Sends the signal that comes with the error, to the thread that makes the call.
    pub(crate) fn signal_of(call: &Call, fault: Option<i32>) {
        if fault == Some(libc::EFBIG)
            && let Some(process) = status(call.thread, "Tgid:")
        {
            seccomp::signal_thread(process, call.thread, Signal::SIGXFSZ);
        }
    }

    fn interruption_of(&mut self, call: &Call, errors: &[i32]) -> Option<i32> {
        let kind = (call.thread, call.number);
        if !errors.contains(&libc::EINTR) || self.spared.remove(&kind) {
            return None;
        }
        self.spared.insert(kind);
        Some(libc::EINTR)
    }

    /// Whether Tokio makes this call to wake itself, or a panic to be seen:
    /// without these no program could go on, whoever launches servers.
    fn is_of_the_runtime(&self, call: &Call) -> bool {
        if call.number != libc::SYS_read && call.number != libc::SYS_write {
            return false;
        }
        let fd = call.args[0];
        let target = fs::read_link(format!("/proc/{}/fd/{fd}", call.thread));
        let target = target.unwrap_or_default();
        (call.number == libc::SYS_write
            && fd < 3
            && self.callers.get(&call.thread) == Some(&Caller::Host))
            || target.to_str() == Some("anon_inode:[eventfd]")
    }

    fn caller(&mut self, call: &Call) -> Caller {
        let caller = match self.callers.get(&call.thread) {
            Some(&caller) => caller,
            None => self.who_is(call.thread),
        };
        let mut next = caller;
        if call.number == libc::SYS_execve && caller == Caller::Guardian {
            // The host's child becomes the guardian; a guardian's child the server.
            let guarded = self.isolation != Isolation::ProcessGroup;
            if !(guarded && parent_of(call.thread) == Some(self.host.as_raw())) {
                next = Caller::Server;
            }
        }
        self.callers.insert(call.thread, next);
        caller
    }

    fn who_is(&self, thread: u32) -> Caller {
        match status(thread, "Tgid:") {
            Some(process) if process == self.host.as_raw() => Caller::Host,
            // A child of the server's program is the server's.
            _ => match parent_of(thread).and_then(|p| self.callers.get(&p.unsigned_abs())) {
                Some(Caller::Server) => Caller::Server,
                _ => Caller::Guardian,
            },
        }
    }
}

/// Returns whether the limit on the size of files applies to this write.
fn has_limited_size(call: &Call) -> bool {
    let path = format!("/proc/{}/fd/{}", call.thread, call.args[0]);
    let is_file = fs::metadata(&path).is_ok_and(|file| file.is_file());
    let kind = statfs(&*path).map(|system| system.filesystem_type());
    is_file && kind.is_ok_and(|kind| !WITHOUT_SIZES.contains(&kind))
}
