//! A program that leads a process group, and a watcher that ends the group when this process is
//! killed.
//!
//! ```text
//!  this process ── fork ──▶ leader ── fork, fork ──▶ watcher
//!      ✗ ───── end of the lifeline ────────────────▶ SIGTERM, the grace, SIGKILL to its own group
//! ```
//!
//! The leader forks the watcher before it executes its program: at no instant does a process of the
//! group live without it. As a member, the watcher keeps the number of the group from being
//! reissued. It is no descendant of either, so that killing a tree by parents does not find it.

use std::convert::Infallible;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{self, ForkResult, setpgid};

use crate::exit::ExitStatus;
use crate::sys::{self, Member, Pid};

/// A process group that a child of this process leads.
///
/// # Drop
///
/// Kills what is left of the group, the watcher too, and reaps the leader.
#[derive(Debug)]
pub struct Group {
    leader: Pid,
    watcher: Pid,
    lifeline: PipeWriter,
}

impl Group {
    /// Starts a program as the leader, with all signals unblocked. Returns once it is executed.
    ///
    /// To be called by a process with one thread that blocks all signals. Its standard streams are
    /// the program's, unless `command` says otherwise.
    pub fn start(command: &mut Command, grace: Duration) -> io::Result<Self> {
        let (watched, lifeline) = io::pipe()?;
        let (mut reports, report) = io::pipe()?;
        let Some(leader) = fork()? else {
            drop((lifeline, reports));
            let Err(error) = lead(command, watched, &report, grace);
            let errno = error.raw_os_error().unwrap_or(libc::ENOEXEC);
            let _ = (&report).write_all(&errno.to_ne_bytes());
            process::exit(127);
        };
        drop((watched, report));
        let mut said = Vec::new();
        reports.read_to_end(&mut said)?;
        let numbers = said.as_chunks().0.iter().map(|it| i32::from_ne_bytes(*it));
        let (watcher, errno) = match numbers.collect::<Vec<_>>()[..] {
            [watcher] => (watcher, None),
            [watcher, errno] => (watcher, Some(errno)),
            _ => (leader.as_raw(), Some(libc::ECHILD)),
        };
        let pid = |it: i32| Pid::new(it.into()).ok_or(io::ErrorKind::InvalidData);
        let group = Self {
            leader: pid(leader.as_raw())?,
            watcher: pid(watcher)?,
            lifeline,
        };
        errno.map_or(Ok(group), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    /// Returns the leader, which has the number of the group.
    pub fn leader(&self) -> Pid {
        self.leader
    }

    /// Returns how the leader has ended, if it has. It stays a zombie.
    pub fn exited(&self) -> io::Result<Option<ExitStatus>> {
        sys::peek(self.leader)
    }

    /// Returns the live members besides the leader and the watcher.
    pub fn members(&self) -> io::Result<Vec<Member>> {
        let look = || -> io::Result<Vec<Member>> {
            let mut members = sys::members_of_group(self.leader)?;
            members.retain(|member| member.pid != self.watcher && member.pid != self.leader);
            Ok(members)
        };
        // A first look may miss a child that has just lost its parent.
        let members = look()?;
        match members.is_empty() {
            true => look(),
            false => Ok(members),
        }
    }

    /// Sends a signal to all members. The watcher notices no other than SIGKILL.
    pub fn signal(&self, number: i32) {
        // SAFETY: it takes numbers; the leader is not reaped, so this one is of its group.
        let _ = unsafe { libc::killpg(self.leader.as_u32().cast_signed(), number) };
    }

    /// Asks all members to end. Then the watcher will not ask them again.
    pub fn terminate(&self) {
        let _ = (&self.lifeline).write_all(b"A");
        self.signal(libc::SIGTERM);
        self.signal(libc::SIGCONT);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = sys::uninterrupted(|| waitpid(self.leader.raw(), None));
    }
}

/// Returns the child, in the parent.
fn fork() -> nix::Result<Option<unistd::Pid>> {
    // SAFETY: the caller of `Group::start` has one thread, so the child may do what it may.
    match unsafe { unistd::fork() }? {
        ForkResult::Child => Ok(None),
        ForkResult::Parent { child } => Ok(Some(child)),
    }
}

/// Executes the program as the leader of a group with a watcher.
fn lead(
    command: &mut Command,
    lifeline: PipeReader,
    report: &PipeWriter,
    grace: Duration,
) -> io::Result<Infallible> {
    setpgid(unistd::Pid::from_raw(0), unistd::Pid::from_raw(0))?;
    let Some(between) = fork()? else {
        if let Some(watcher) = fork()? {
            let said = (&*report).write_all(&watcher.as_raw().to_ne_bytes());
            process::exit(said.is_err().into());
        }
        // Hosts wait for the end of the streams, and `start` for that of the report.
        for fd in [0, 1, 2, report.as_raw_fd()] {
            let _ = unistd::close(fd);
        }
        watch(lifeline, grace)
    };
    drop(lifeline);
    waitpid(between, None)?;
    SigSet::all().thread_unblock()?;
    Err(command.exec())
}

/// Waits for the end of the lifeline, and ends the group of this process.
fn watch(mut lifeline: PipeReader, grace: Duration) -> ! {
    let _ = unistd::chdir("/");
    let mut is_asked = false;
    while let Ok(1) = lifeline.read(&mut [0]) {
        is_asked = true;
    }
    let own_group = unistd::Pid::from_raw(0);
    if !is_asked {
        let _ = kill(own_group, Signal::SIGTERM);
        let _ = kill(own_group, Signal::SIGCONT);
    }
    thread::sleep(grace);
    let _ = kill(own_group, Signal::SIGKILL);
    process::exit(0)
}
