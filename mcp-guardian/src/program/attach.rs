//! A guardian between this process and a command that the standard library starts: the child that
//! is forked for the command becomes the guardian, and forks once more for the program.

use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::socket::{self, AddressFamily, MsgFlags, Shutdown, SockFlag, SockType};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid, getppid, setpgid, write};

use super::Received;
use super::handle::{GuardianHandle, wait_for};
use super::protocol::{
    CGROUP_PROCS_FD, FIRST_FREE_FD, GATE_FD, PARAM_COUNT, PROGRAM_PARAM, Report, flag_of,
};
use super::spawn::{IMAGE, SpawnGuardianError, SpawnRequest, failed, parameters, passed, prepare};
use crate::cgroup::Doors;
use crate::sys;

/// A guardian that starts with the next start of a command, as its direct child. The command keeps
/// all that was set for it.
#[derive(Debug)]
pub struct Attached {
    control: OwnedFd,
    /// `None` once the command is started: a later start has no guardian.
    between: Option<Arc<Between>>,
}

/// The data of the forked child, prepared: nothing may be allocated there.
#[derive(Debug)]
struct Between {
    image: OwnedFd,
    parameters: [CString; PARAM_COUNT],
    mark: CString,
    passed: Vec<(OwnedFd, RawFd)>,
}

impl Attached {
    /// Attaches a guardian to a command. `mark` is its only variable; `grace` as in a request.
    pub fn new(
        command: &mut Command,
        mark: CString,
        cgroup: Option<(&OsStr, &Doors)>,
        grace: Duration,
    ) -> Result<Self, SpawnGuardianError> {
        let (control, theirs) = prepare()?;
        let name = cgroup.map(|(name, _)| CString::new(name.as_bytes()).unwrap_or_default());
        let request = SpawnRequest::nothing(theirs.as_fd());
        let mut request = request.in_cgroup(cgroup.map(|(_, doors)| doors));
        request.grace = grace;
        request.record.cgroup = name.as_deref();
        let mut copies = Vec::new();
        let mut flags = flag_of(GATE_FD);
        for (fd, number) in passed(&request, theirs.as_fd()) {
            if let Some(fd) = fd.filter(|_| number > libc::STDERR_FILENO) {
                copies.push((copy(fd).map_err(failed("its descriptors"))?, number));
                flags |= flag_of(number);
            }
        }
        let between = Arc::new(Between {
            image: IMAGE.run(copy).map_err(failed("its program"))?,
            parameters: parameters(&request, flags),
            mark,
            passed: copies,
        });
        let hooked = Arc::downgrade(&between);
        sys::before_exec(command, move || match hooked.upgrade() {
            Some(between) => Ok(between.split()?),
            None => Ok(()),
        });
        Ok(Self {
            control,
            between: Some(between),
        })
    }

    /// Holds the guardian, which is this child, and returns the pid of the program. Blocks until the
    /// guardian has reported that it runs, at most for `limit`.
    pub fn hold(
        mut self,
        child: u32,
        limit: Duration,
    ) -> Result<(GuardianHandle, u32), (io::Error, Self)> {
        // These copies would hide the end of the guardian.
        self.between = None;
        let started = wait_for(&self.control, limit, |received| match received {
            Received::Report(Report::Started { pid }) => Some(Ok(pid)),
            Received::Report(Report::ExecFailed { errno, .. }) => Some(Err(errno)),
            Received::Closed => Some(Err(libc::ECHILD)),
            _ => None,
        });
        let started = started.unwrap_or(Err(libc::ETIMEDOUT));
        let held = started
            .map_err(io::Error::from_raw_os_error)
            .and_then(|program| {
                let child = sys::Pid::new(child.into()).ok_or(io::ErrorKind::InvalidInput)?;
                Ok((child.raw(), sys::hold(child)?, program))
            });
        match held {
            Ok((pid, pidfd, program)) => {
                Ok((GuardianHandle::new(pid, pidfd, self.control), program))
            }
            Err(error) => Err((error, self)),
        }
    }

    /// Ends what the command has started, and returns whether the guardian has ended within `limit`.
    pub fn undo(mut self, limit: Duration) -> bool {
        self.between = None;
        let _ = socket::shutdown(self.control.as_raw_fd(), Shutdown::Write);
        let closed = wait_for(&self.control, limit, |received| {
            (received == Received::Closed).then_some(())
        });
        closed.is_some()
    }
}

fn copy(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    sys::duplicate_from(fd, FIRST_FREE_FD)
}

impl Between {
    /// Returns in the program's process, when its guardian is ready or there can be none.
    fn split(&self) -> Result<(), Errno> {
        // No signal ends the guardian, nor calls a handler of this program.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        // Before there are orphans, which would be reparented elsewhere.
        prctl::set_child_subreaper(true)?;
        let guardian = getpid();
        let (unix, packets) = (AddressFamily::Unix, SockType::SeqPacket);
        let (ours, theirs) = socket::socketpair(unix, packets, None, SockFlag::SOCK_CLOEXEC)?;
        let Some(program) = sys::fork()? else {
            drop(ours);
            self.become_program(guardian, &theirs)?;
            return before.thread_set_mask();
        };
        drop(theirs);
        let failed = self.become_guardian(program, &ours);
        let message = (failed as i32).to_le_bytes();
        let _ = write(&ours, &message);
        // It reports the failure. The end of this process would kill it.
        let _ = waitpid(program, None);
        loop {
            let _ = nix::sys::signal::kill(guardian, Signal::SIGKILL);
        }
    }

    fn become_program(&self, guardian: Pid, gate: &OwnedFd) -> Result<(), Errno> {
        // The guardian has one thread, so this reacts only to its death.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != guardian {
            return Err(Errno::ESRCH);
        }
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        let procs = self
            .passed
            .iter()
            .find(|(_, number)| *number == CGROUP_PROCS_FD);
        if let Some((procs, _)) = procs {
            write(procs, b"0")?;
        }
        let mut errno = [0; 4];
        let receive = || socket::recv(gate.as_raw_fd(), &mut errno, MsgFlags::empty());
        match sys::uninterrupted(receive)? {
            4 if errno == [0; 4] => Ok(()),
            4 => Err(Errno::from_raw(i32::from_le_bytes(errno))),
            _ => Err(Errno::ECHILD),
        }
    }

    /// Returns what failed.
    fn become_guardian(&self, program: Pid, gate: &OwnedFd) -> Errno {
        let mut pid = *b"0000000000\0";
        let _ = write!(&mut pid[..10], "{program:010}");
        let mut arguments = [c""; PARAM_COUNT + 1];
        for (place, parameter) in arguments.iter_mut().zip(&self.parameters) {
            *place = parameter;
        }
        arguments[PROGRAM_PARAM] = CStr::from_bytes_with_nul(&pid).unwrap_or_default();
        let prepared = || {
            fcntl(gate, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            // Out of the way of the numbers below.
            let gate = fcntl(gate, FcntlArg::F_DUPFD_CLOEXEC(FIRST_FREE_FD))?;
            for (fd, number) in &self.passed {
                sys::place(fd.as_raw_fd(), *number)?;
            }
            sys::place(gate, GATE_FD)
        };
        match prepared() {
            Ok(()) => sys::execute(self.image.as_fd(), &arguments, &self.mark),
            Err(errno) => errno,
        }
    }
}
