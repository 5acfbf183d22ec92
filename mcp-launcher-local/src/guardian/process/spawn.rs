//! Starting a guardian, and with it a server.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::process;
use std::thread;
use std::time::Duration;

use mcp_lifecycle_host::program::{Image, exec_path, is_refusal};
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::Pid;

use super::handle::GuardianHandle;
use super::image::{check_support, image};
use super::protocol::{
    CGROUP_DIR_FD, CGROUP_KILL_FD, CGROUP_LEAF_FD, CGROUP_PROCS_FD, COMPANION_FD, CONTROL_FD,
    FIRST_FREE_FD, FLAG_CGROUP_DIR, FLAG_CGROUP_KILL, FLAG_CGROUP_LEAF, FLAG_CGROUP_PROCS,
    FLAG_COMPANION, FLAG_LEDGER, FLAG_MEMORY, FLAG_ORPHAN, FLAG_OWN_VARIABLE, FLAG_PID_NAMESPACE,
    FLAG_RING, FLAG_SPARE, LEDGER_DIR_FD, LEDGER_FD, PARAM_COUNT, RING_FD,
};
use super::unreaped::{self, Unreaped};
use crate::sys;

/// The program to start, and its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct SpawnRequest<'a> {
    /// The program: a path, which is not searched for, and is relative to [`cwd`](Self::cwd) unless it is absolute.
    pub program: &'a CStr,
    /// Its arguments, the name it is called by first. If empty, [`program`](Self::program) is that name.
    pub argv: &'a [CString],
    /// Its environment: these `NAME=value` and nothing else. The guardian has them as well (`/proc/PID/environ`); once the server runs, it
    /// keeps the last one for certain, and whole pages before it not.
    pub env: &'a [CString],
    /// The working directory; `None` for the host's.
    pub cwd: Option<&'a CStr>,
    /// Its standard input.
    pub stdin: BorrowedFd<'a>,
    /// Its standard output.
    pub stdout: BorrowedFd<'a>,
    /// Its standard error.
    pub stderr: BorrowedFd<'a>,
    /// The directory of the cgroup it is born in, where this system lets it.
    pub cgroup_leaf: Option<BorrowedFd<'a>>,
    /// `cgroup.procs` of the same cgroup, open for writing: else it joins by that, before its first instruction.
    pub cgroup_procs: Option<BorrowedFd<'a>>,
    /// `cgroup.kill` of the same cgroup, open for writing.
    pub cgroup_kill: Option<BorrowedFd<'a>>,
    /// The time it has to end by itself, after SIGTERM, once the host is gone; zero for none. Counted in milliseconds, at most 49 days.
    pub grace: Duration,
    /// What the guardian removes at the end; nothing where the host does that itself.
    pub record: Record<'a>,
    /// `true` if it gets a PID namespace of its own.
    pub pid_namespace: bool,
    /// `true` if there is no server to start: the guardian leaves an orphan behind instead, which [reports](super::protocol::Report::Adopted) to
    /// whom the kernel has given it. The guardian waits for any request before it ends.
    pub orphan: bool,
    /// `true` if the guardian is a spare: it starts nothing before [it is told what](GuardianHandle::order).
    pub spare: bool,
    /// `true` if the last variable of [`env`](Self::env) is the guardian's alone: the server does not get it.
    pub own_variable: bool,
}

/// What a guardian keeps of a server whose host does not: where it is, to be removed when nothing is left of it, and who else waits for that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// The directory that the server's cgroup is in, and the cgroup's name.
    pub cgroup: Option<(BorrowedFd<'a>, &'a CStr)>,
    /// Whether that cgroup has a limit of memory: the guardian [says](super::protocol::Report::OutOfMemory) whether it was reached.
    pub has_memory_limit: bool,
    /// The ledger, whose lock the guardian keeps; the directory that it is in, and its name.
    pub ledger: Option<(BorrowedFd<'a>, BorrowedFd<'a>, &'a CStr)>,
    /// The ring of what ended, at the record of this server. The guardian completes it.
    pub ring: Option<BorrowedFd<'a>>,
    /// The socket to a process that ends what is no descendant of the server: open for as long as the guardian lives.
    pub companion: Option<BorrowedFd<'a>>,
    /// The patterns of who is to stay, each but the last followed by a line feed.
    pub keep: Option<&'a CStr>,
}

impl<'a> SpawnRequest<'a> {
    /// A request for a program that cannot be executed, with these standard streams.
    #[must_use]
    pub fn nothing(null: BorrowedFd<'a>) -> Self {
        Self {
            // A directory.
            program: c"/",
            argv: &[],
            env: &[],
            cwd: None,
            stdin: null,
            stdout: null,
            stderr: null,
            cgroup_leaf: None,
            cgroup_procs: None,
            cgroup_kill: None,
            grace: Duration::ZERO,
            record: Record::default(),
            pid_namespace: false,
            orphan: false,
            spare: false,
            own_variable: false,
        }
    }
}

/// No guardian was started, and nothing is left of the attempt, but for one that could not be held.
#[derive(Debug, thiserror::Error)]
pub enum SpawnGuardianError {
    /// There can be no guardian: this build has none for its architecture, or the kernel lacks what it needs.
    #[error("no guardian is available")]
    Unavailable(#[source] io::Error),
    /// This system refuses to execute the guardian, from memory as well as from a file.
    #[error("this system refuses to execute the guardian")]
    Refused(#[source] io::Error),
    /// It could not be started this time.
    #[error("the guardian cannot be started: {action}")]
    Failed {
        /// The step that failed.
        action: &'static str,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

/// The step at which a guardian was started, could not be held, and has not ended.
const NOT_ENDED: &str = "its pidfd (it was told to end, and had not done so after 5 s)";

impl SpawnGuardianError {
    /// Returns whether a guardian may live, and a server under it, that nobody holds.
    pub(crate) fn may_have_left_one(&self) -> bool {
        matches!(self, Self::Failed { action, .. } if *action == NOT_ENDED)
    }
}

/// The program, for all that execute it.
pub(super) static IMAGE: Image = image();

/// Starts the guardian, which starts the server.
///
/// Returns as soon as the guardian is running; whether the server is, it [reports](super::protocol::Report). Blocks for the time of one
/// `posix_spawn`, which does not depend on the size of the host.
///
/// # Errors
///
/// See [`SpawnGuardianError`]. What concerns the server, such as a missing program, is a report.
pub fn spawn(request: SpawnRequest<'_>) -> Result<GuardianHandle, SpawnGuardianError> {
    spawn_from(&IMAGE, request)
}

/// As [`spawn`], from a given image.
#[doc(hidden)]
pub fn spawn_from(
    image: &Image,
    request: SpawnRequest<'_>,
) -> Result<GuardianHandle, SpawnGuardianError> {
    check_support().map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => SpawnGuardianError::Unavailable(error),
        _ => failed("its program")(error),
    })?;
    unreaped::reap();
    let (control, theirs) = control_pair().map_err(failed("its socket"))?;
    let pid = start(image, &request, theirs.as_fd())?;
    // The host must not keep the guardian's end, or it would never see it close.
    drop(theirs);
    let held = sys::Pid::new(pid.as_raw().into()).map(sys::hold);
    match held.unwrap_or_else(|| Err(Errno::ESRCH.into())) {
        Ok(pidfd) => Ok(GuardianHandle::new(pid, pidfd, control)),
        Err(error) => {
            // Nobody could hold it. It ends everything when the socket closes, and is then reaped here.
            drop(control);
            let action = match reap_in_time(pid) {
                true => "its pidfd (it was ended again)",
                false => NOT_ENDED,
            };
            Err(failed(action)(error))
        }
    }
}

/// Waits for a guardian that ends and has no descriptor to wait with.
fn reap_in_time(pid: Pid) -> bool {
    let guardian = Unreaped::Numbered(pid);
    for _ in 0..5_000 {
        if guardian.is_reaped() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    guardian.leave();
    false
}

/// The host's end, which does not block, and the guardian's.
fn control_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        flags,
    )?)
}

fn start(
    image: &Image,
    request: &SpawnRequest<'_>,
    control: BorrowedFd<'_>,
) -> Result<Pid, SpawnGuardianError> {
    let Record {
        cgroup,
        has_memory_limit,
        ledger,
        ring,
        companion,
        keep,
    } = request.record;
    let passed = [
        (Some(request.stdin), 0, 0),
        (Some(request.stdout), 1, 0),
        (Some(request.stderr), 2, 0),
        (Some(control), CONTROL_FD, 0),
        (request.cgroup_leaf, CGROUP_LEAF_FD, FLAG_CGROUP_LEAF),
        (request.cgroup_procs, CGROUP_PROCS_FD, FLAG_CGROUP_PROCS),
        (request.cgroup_kill, CGROUP_KILL_FD, FLAG_CGROUP_KILL),
        (cgroup.map(|(dir, _)| dir), CGROUP_DIR_FD, FLAG_CGROUP_DIR),
        (ledger.map(|(file, ..)| file), LEDGER_FD, FLAG_LEDGER),
        (ledger.map(|(_, dir, _)| dir), LEDGER_DIR_FD, FLAG_LEDGER),
        (ring, RING_FD, FLAG_RING),
        (companion, COMPANION_FD, FLAG_COMPANION),
    ];
    let descriptors = Descriptors::new(&passed).map_err(failed("its descriptors"))?;
    let parameters = [
        c"mcp-guardian".to_owned(),
        number(process::id()),
        number(
            descriptors.flags
                | (u32::from(request.pid_namespace) * FLAG_PID_NAMESPACE)
                | (u32::from(has_memory_limit) * FLAG_MEMORY)
                | (u32::from(request.orphan) * FLAG_ORPHAN)
                | (u32::from(request.spare) * FLAG_SPARE)
                | (u32::from(request.own_variable) * FLAG_OWN_VARIABLE),
        ),
        number(u32::try_from(request.grace.as_millis()).unwrap_or(u32::MAX)),
        cgroup.map_or(c"", |(_, name)| name).to_owned(),
        ledger.map_or(c"", |(.., name)| name).to_owned(),
        request.cwd.unwrap_or_default().to_owned(),
        request.program.to_owned(),
        keep.unwrap_or_default().to_owned(),
    ];
    const { assert!(PARAM_COUNT == 9, "the parameters above, in their order") };
    let name = request.argv.is_empty().then_some(request.program);
    let argv: Vec<&CStr> = parameters
        .iter()
        .map(CString::as_c_str)
        .chain(name)
        .chain(request.argv.iter().map(CString::as_c_str))
        .collect();
    let attributes = attributes().map_err(failed("its attributes"))?;
    let run =
        |fd: BorrowedFd<'_>| execute(fd, &descriptors.actions, &attributes, &argv, request.env);
    image.run(run).map_err(|error| match is_refusal(&error) {
        true => SpawnGuardianError::Refused(error),
        false => failed("its program")(error),
    })
}

/// What becomes which descriptor of the guardian.
struct Descriptors {
    actions: PosixSpawnFileActions,
    flags: u32,
    /// Copies that have to live until the spawn.
    _moved: Vec<OwnedFd>,
}

impl Descriptors {
    /// From descriptors with their numbers in the guardian, and the flags that say that they are there.
    fn new(passed: &[(Option<BorrowedFd<'_>>, RawFd, u32)]) -> io::Result<Self> {
        let mut actions = PosixSpawnFileActions::init()?;
        let mut flags = 0;
        let mut moved = Vec::new();
        for &(fd, target, flag) in passed {
            let Some(fd) = fd else { continue };
            let mut source = fd.as_raw_fd();
            // One action must not overwrite the source of a later one. (And what is already where it belongs would stay closed on exec.)
            if source < FIRST_FREE_FD {
                let copy = sys::duplicate_from(fd, FIRST_FREE_FD)?;
                source = copy.as_raw_fd();
                moved.push(copy);
            }
            actions.add_dup2(source, target)?;
            flags |= flag;
        }
        Ok(Self {
            actions,
            flags,
            _moved: moved,
        })
    }
}

/// The guardian starts with every signal blocked, so that there is no instant at which one could end it. It sees to that by itself as well, and to
/// default actions; naming them here spares the C library from asking for each one first, while the host is suspended.
fn attributes() -> io::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    )?;
    attributes.set_sigmask(&SigSet::all())?;
    attributes.set_sigdefault(&SigSet::all())?;
    Ok(attributes)
}

fn execute(
    program: BorrowedFd<'_>,
    actions: &PosixSpawnFileActions,
    attributes: &PosixSpawnAttr,
    argv: &[&CStr],
    env: &[CString],
) -> io::Result<Pid> {
    /// A file that was just written can be busy: another thread of the host may have forked while it was open, and not have executed yet.
    const BUSY_ATTEMPTS: u32 = 100;
    const BUSY_PAUSE: Duration = Duration::from_millis(1);
    let path = exec_path(program)?;
    for _ in 0..BUSY_ATTEMPTS {
        match posix_spawn(path.as_c_str(), actions, attributes, argv, env) {
            Err(Errno::ETXTBSY) => thread::sleep(BUSY_PAUSE),
            other => return Ok(other?),
        }
    }
    Err(Errno::ETXTBSY.into())
}

pub(super) fn number(number: u32) -> CString {
    CString::new(number.to_string()).unwrap_or_default()
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> SpawnGuardianError {
    move |source| SpawnGuardianError::Failed { action, source }
}
