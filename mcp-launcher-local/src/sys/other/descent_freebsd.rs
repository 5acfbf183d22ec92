//! The reaper of FreeBSD (procctl(2)): before its first instruction a server becomes the process that orphans below
//! it are given to, so the kernel has a list of its whole tree. Unmeasured: compiled, and run on no machine of ours.
//!
//! - The list is read only while the server still is a reaper, asked before and after: of another process the kernel
//!   would tell who is below *its* reaper, which are strangers.
//! - SIGKILL goes to one subtree after the other, never to all: the number of a subtree is not given out again while
//!   a process of it lives, so a server that ends in between turns the order on no stranger.
//! - A server that has ended is no reaper any more: descendants that left its group belong to init then, and are lost.
//! - The server dies with its host (`PROC_PDEATHSIG_CTL`), unless it is a set-uid program.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::pid_t;
use nix::errno::Errno;
use nix::unistd::getpgid;

use super::super::{Member, Pid, shielded};
use crate::identity::Cookie;

// `sys/procctl.h`, which the libc crate does not have.

#[repr(C)]
#[derive(Default)]
struct Status {
    flags: c_uint,
    children: c_uint,
    descendants: c_uint,
    reaper: pid_t,
    first: pid_t,
    padding: [c_uint; 15],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Below {
    pid: pid_t,
    /// The child of the reaper that it descends from.
    subtree: pid_t,
    flags: c_uint,
    padding: [c_uint; 15],
}

#[repr(C)]
struct List {
    count: c_uint,
    padding: [c_uint; 15],
    pids: *mut Below,
}

#[repr(C)]
#[derive(Default)]
struct Kill {
    signal: c_int,
    flags: c_uint,
    subtree: pid_t,
    killed: c_uint,
    failed: pid_t,
    padding: [c_uint; 15],
}

const REAPER_STATUS_OWNED: c_uint = 1;
const REAPER_PIDINFO_VALID: c_uint = 1;
const REAPER_PIDINFO_ZOMBIE: c_uint = 8;
const REAPER_KILL_SUBTREE: c_uint = 2;

/// How often the list is read while it grows: a storm of forks.
const LOOKS: usize = 64;

/// Servers of this host that were started as reapers, and have not been reaped.
static SERVERS: Mutex<BTreeSet<Pid>> = Mutex::new(BTreeSet::new());

/// A server whose tree the kernel lists.
///
/// # Drop
///
/// It is forgotten.
#[derive(Debug)]
pub(super) struct Descent {
    server: Pid,
}

/// Makes the server a reaper that dies with this host. It is started by `fork` then, and not by `posix_spawn`.
pub(super) fn prepare(command: &mut Command) {
    let host = std::process::id();
    let become_reaper = move || {
        let mut signal = libc::SIGKILL;
        // SAFETY: 0 is the process itself; this command takes no data.
        let acquired = unsafe {
            libc::procctl(
                libc::P_PID,
                0,
                libc::PROC_REAP_ACQUIRE,
                std::ptr::null_mut(),
            )
        };
        Errno::result(acquired)?;
        // SAFETY: 0 is the process itself, and `signal` is a number that the kernel reads.
        let tied = unsafe {
            libc::procctl(
                libc::P_PID,
                0,
                libc::PROC_PDEATHSIG_CTL,
                (&raw mut signal).cast::<c_void>(),
            )
        };
        Errno::result(tied)?;
        // The host may have died before that.
        match u32::try_from(nix::unistd::getppid().as_raw()) == Ok(host) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: between fork and exec it makes three system calls, allocates nothing and takes no lock.
    unsafe { command.pre_exec(become_reaper) };
}

impl Descent {
    pub(super) fn begin(server: Pid, _: Option<&Cookie>) -> Self {
        servers().insert(server);
        Self { server }
    }

    /// SIGTERM goes to the group alone.
    pub(super) fn ask_to_end(&self) {}

    /// SIGKILL for all that is below the server.
    pub(super) fn end(&self) {
        for _ in 0..LOOKS {
            let below = below(self.server).unwrap_or_else(|error| {
                shielded(|| tracing::warn!(%error, "the descendants of a server cannot be listed"));
                Vec::new()
            });
            let subtrees: BTreeSet<pid_t> = below
                .iter()
                .filter(|one| is_alive(one))
                .map(|one| one.subtree)
                .collect();
            let killed = subtrees
                .into_iter()
                .filter(|subtree| kill_subtree(self.server, *subtree));
            if killed.count() == 0 {
                break;
            }
        }
    }
}

impl Drop for Descent {
    fn drop(&mut self) {
        servers().remove(&self.server);
    }
}

/// Descendants of a server that live outside of its group. The kernel tells no names with them.
pub(super) fn outside(server: Pid) -> io::Result<Vec<Member>> {
    if !servers().contains(&server) {
        return Ok(Vec::new());
    }
    let below = below(server)?;
    let outside = below.iter().filter(|one| is_alive(one)).filter_map(|one| {
        let pid = Pid::new(one.pid.into())?;
        let is_outside = getpgid(Some(pid.raw())).is_ok_and(|group| group != server.raw());
        is_outside.then(|| Member {
            pid,
            name: "descendant".to_owned(),
        })
    });
    Ok(outside.collect())
}

/// Returns whether this process is below a server of this host.
pub(super) fn is_member(pid: Pid) -> bool {
    let known: Vec<Pid> = servers().iter().copied().collect();
    let is_pid = |one: &Below| one.pid == pid.raw().as_raw() && is_alive(one);
    known
        .into_iter()
        .any(|server| below(server).is_ok_and(|below| below.iter().any(is_pid)))
}

fn is_alive(one: &Below) -> bool {
    one.flags & REAPER_PIDINFO_VALID != 0 && one.flags & REAPER_PIDINFO_ZOMBIE == 0
}

/// Everybody below a server, as long as it is a reaper.
fn below(server: Pid) -> io::Result<Vec<Below>> {
    let Some(expected) = descendants(server)? else {
        return Ok(Vec::new());
    };
    let mut pids = vec![Below::default(); expected + 64];
    let mut list = List {
        count: c_uint::try_from(pids.len()).unwrap_or(c_uint::MAX),
        padding: [0; 15],
        pids: pids.as_mut_ptr(),
    };
    // SAFETY: `list` is what this command reads, and its pointer leads to `count` entries that it may write.
    match unsafe { control(server, libc::PROC_REAP_GETPIDS, (&raw mut list).cast()) } {
        Ok(()) => {}
        Err(Errno::ESRCH) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    }
    // Still its own list.
    match descendants(server)? {
        Some(_) => Ok(pids),
        None => Ok(Vec::new()),
    }
}

/// How many there are below a server; `None` if it is no reaper (any more).
fn descendants(server: Pid) -> io::Result<Option<usize>> {
    let mut status = Status::default();
    // SAFETY: `status` is what this command writes.
    match unsafe { control(server, libc::PROC_REAP_STATUS, (&raw mut status).cast()) } {
        Ok(()) => {
            let is_reaper = status.flags & REAPER_STATUS_OWNED != 0;
            Ok(is_reaper.then(|| usize::try_from(status.descendants).unwrap_or(0)))
        }
        Err(Errno::ESRCH) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns whether a process was killed.
fn kill_subtree(server: Pid, subtree: pid_t) -> bool {
    let mut kill = Kill {
        signal: libc::SIGKILL,
        flags: REAPER_KILL_SUBTREE,
        subtree,
        ..Kill::default()
    };
    // SAFETY: `kill` is what this command reads and writes.
    let killed = unsafe { control(server, libc::PROC_REAP_KILL, (&raw mut kill).cast()) };
    killed.is_ok() && kill.killed > 0
}

/// # Safety
///
/// `data` has to be what the command takes.
unsafe fn control(server: Pid, command: c_int, data: *mut c_void) -> Result<(), Errno> {
    let id = libc::id_t::from(server.as_u32());
    // SAFETY: the caller's.
    Errno::result(unsafe { libc::procctl(libc::P_PID, id, command, data) }).map(drop)
}

fn servers() -> MutexGuard<'static, BTreeSet<Pid>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}
