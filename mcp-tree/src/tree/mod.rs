//! A tree of processes: its owner, and what it does for it.
//!
//! ```text
//! start ──── record, cgroup and guardian of a new tree, and their undoing
//! attach ─── the same for a command of the standard library
//! guarded ── the primitives of a running tree
//! conclude ─ takes the guardian's reports, and does what the `conclusion` asks for
//! take_over  ends what a killed guardian has left
//! look ───── lists living processes, as far as the host can read them
//! strays ─── ends processes outside the tree and cgroup, by their mark
//! ```

mod attach;
mod conclude;
mod guarded;
mod look;
pub(crate) mod start;
mod strays;
mod take_over;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{Containment, ExitStatus, Gone, ReapReport, Remnant, StepError};

pub(crate) use self::attach::Attaching;
pub use self::guarded::Guarded;
#[cfg(feature = "process-wrap")]
pub(crate) use self::guarded::Reap;
use crate::ending::State;
use crate::program::protocol::Request;
use crate::{orphans, sys};

/// A tree of processes: a program that this process has started, and all that it starts.
///
/// A small process, the guardian, stands between: the parent of the program, and of all that loses
/// its parent below it. It ends the tree when this process is killed.
///
/// # Drop
///
/// Kills the tree, without waiting, in any context. A thread of this process reaps the guardian.
#[derive(Debug)]
pub struct Tree {
    /// The program's standard input, if it was piped.
    pub stdin: Option<ChildStdin>,
    /// The program's standard output, if it was piped.
    pub stdout: Option<ChildStdout>,
    /// The program's standard error, if it was piped.
    pub stderr: Option<ChildStderr>,
    pub(crate) guarded: Arc<Guarded>,
}

/// The options of a [`Tree`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// The time to end by itself, after SIGTERM, once this process is gone. Counted in
    /// milliseconds. Zero by default: SIGKILL at once.
    pub grace: Duration,
}

/// The proof that a tree has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ended {
    /// The status of the program; unknown if it was lost with a guardian that was killed.
    pub exit: ExitStatus,
    /// The evidence, and the processes that had to be ended after the program.
    pub gone: Gone,
}

/// Failure to prove that a tree has ended, with the processes that live, as far as they are known.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}; alive: {survivors:?}")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub struct Unproven {
    pub why: String,
    pub survivors: Vec<Remnant>,
}

impl Tree {
    /// Starts a command with all that was set for it, and `MCP_LIFECYCLE_ID` in its environment. It
    /// leads a process group.
    ///
    /// Forks this process twice: 3 ms in a small one, 200 to 300 ms in one of 2 GiB. Hooks that the
    /// command has run in the guardian, which has its user and limits too.
    ///
    /// # Errors
    ///
    /// The errors of [`Command::spawn`], and [`io::ErrorKind::Unsupported`] where this machine refuses a
    /// guardian. Nothing is left.
    pub fn spawn(mut command: Command, options: Options) -> io::Result<Self> {
        let attaching = Attaching::new(&mut command, &options)?;
        let mut child = command.spawn()?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut tree = attaching.hold(child.id(), Box::new(move || child.try_wait()))?;
        (tree.stdin, tree.stdout, tree.stderr) = streams;
        Ok(tree)
    }

    fn of(guarded: Arc<Guarded>) -> Self {
        Self {
            stdin: None,
            stdout: None,
            stderr: None,
            guarded,
        }
    }

    /// Returns the process id of the program, until it has ended.
    pub fn id(&self) -> Option<u32> {
        let guarded = &self.guarded;
        guarded.main_pid().filter(|_| !guarded.ending.has_exited())
    }

    /// Returns the mechanism that holds the tree, and the reason where it is not the best.
    pub fn containment(&self) -> &Containment {
        self.guarded.containment()
    }

    /// Asks all of it to end: SIGTERM. Does not wait.
    pub fn ask(&self) -> io::Result<()> {
        self.guarded.ask()
    }

    /// Kills all of it: SIGKILL, and its cgroup. Does not wait.
    pub fn kill(&self) -> io::Result<()> {
        self.guarded.kill()
    }

    /// Sends a signal to the program's process group, if the program lives; SIGTERM and SIGKILL to
    /// all of it.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let number = u8::try_from(signal).map_err(|_| io::ErrorKind::InvalidInput)?;
        match signal {
            libc::SIGTERM => self.ask(),
            libc::SIGKILL => self.kill(),
            _ if self.guarded.ending.has_exited() => Ok(()),
            _ => self.guarded.guardian.send(Request::Signal(number)),
        }
    }

    /// Closes its input and waits for the end of all of it, at most for `limit`.
    ///
    /// # Errors
    ///
    /// It has not ended, or its end is not proven. Waiting again looks again.
    pub fn wait(&mut self, limit: Duration) -> Result<Ended, Unproven> {
        self.stdin = None;
        let (start, ending) = (Instant::now(), &self.guarded.ending);
        let mut outcome = ending.wait(limit, State::outcome);
        if matches!(outcome, Some(Err(_))) && self.kill().is_ok() {
            outcome = ending.wait(limit.saturating_sub(start.elapsed()), State::outcome);
        }
        let not_yet = || {
            Err(StepError::new(
                "end it",
                format!("it lives after {limit:?}"),
            ))
        };
        self.guarded.judge(outcome.unwrap_or_else(not_yet))
    }

    /// Returns the proof, once there is one.
    pub fn proof(&self) -> Option<Gone> {
        self.guarded.ending.look().outcome()?.ok()
    }

    /// Returns the processes of it that live, also such that cannot be reaped. Reads `/proc`.
    pub fn survivors(&self) -> io::Result<Vec<Remnant>> {
        self.guarded.survivors()
    }

    /// Finds and ends what the trees of killed processes have left, where their guardians were
    /// killed as well. Blocks, at most a little longer than 10 s.
    pub fn orphans() -> io::Result<ReapReport> {
        sys::not_forked()?;
        orphans::reap()
    }
}

impl Guarded {
    /// Waits for the end as [`Tree::wait`] does, without a limit. Cancel safe.
    #[cfg(feature = "process-wrap-tokio")]
    pub(crate) async fn ended(self: &Arc<Self>) -> Result<Ended, Unproven> {
        let mut outcome = self.ending.gone().await;
        if outcome.is_err() && self.kill().is_ok() {
            outcome = self.ending.gone().await;
        }
        self.judge(outcome)
    }

    pub(crate) fn judge(&self, outcome: Result<Gone, StepError>) -> Result<Ended, Unproven> {
        match outcome {
            Ok(gone) => {
                let exit = self.ending.look().exit().unwrap_or(ExitStatus::Unknown);
                Ok(Ended { exit, gone })
            }
            Err(why) => Err(Unproven {
                why: why.to_string(),
                survivors: self.survivors().unwrap_or_default(),
            }),
        }
    }
}

/// Readable when the guardian has ended, and so nearly always the tree: [`wait`](Tree::wait) then
/// takes milliseconds.
impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.guarded.guardian.pidfd()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
