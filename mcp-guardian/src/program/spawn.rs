//! Starts a guardian, which starts a server.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::process;
use std::thread;
use std::time::Duration;

use crate::image::{Image, exec_path, is_refusal};
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::Pid;

use super::handle::GuardianHandle;
use super::image::{check_support, image};
use super::protocol::{
    CGROUP_KILL_FD, CGROUP_LEAF_FD, CGROUP_PROCS_FD, COMPANION_FD, CONTROL_FD, FIRST_FREE_FD,
    FLAG_ALONE, FLAG_FOREGROUND, FLAG_MEMORY, FLAG_ORPHAN, FLAG_OWN_VARIABLE, FLAG_PID_NAMESPACE,
    LEDGER_DIR_FD, LEDGER_FD, PARAM_COUNT, REPORT_FD, RING_FD, RULES_FD, flag_of,
};
use super::unreaped::{self, Unreaped};
use crate::cgroup::Doors;
use crate::sys;

/// The program to start, and its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct SpawnRequest<'a> {
    /// The path of the program, from [`cwd`](Self::cwd).
    pub program: &'a CStr,
    /// Its arguments, beginning with `argv[0]`. If empty, [`program`](Self::program) is `argv[0]`.
    pub argv: &'a [CString],
    /// Its whole environment, as `NAME=value`. The guardian has it as well, and keeps the last
    /// variable while the server runs.
    pub env: &'a [CString],
    pub cwd: Option<&'a CStr>,
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
    /// The directory of the cgroup that the server is born in, where the system allows that.
    pub cgroup_leaf: Option<BorrowedFd<'a>>,
    /// `cgroup.procs` of the same cgroup, open for writing: otherwise the server joins by it,
    /// before its first instruction.
    pub cgroup_procs: Option<BorrowedFd<'a>>,
    pub cgroup_kill: Option<BorrowedFd<'a>>,
    /// The time that the server has to end by itself, after SIGTERM, once the host is gone; zero
    /// for none. Counted in milliseconds, at most 49 days.
    pub grace: Duration,
    pub record: Record<'a>,
    pub pid_namespace: bool,
    /// The [rules](crate::hardened::rules) that the server is restricted to.
    pub rules: Option<BorrowedFd<'a>>,
    /// `true` if the guardian leaves an orphan behind instead of a server, which
    /// [reports](super::protocol::Report::Adopted) its new parent. It waits for a request to end.
    pub orphan: bool,
    /// `true` if the last variable of [`env`](Self::env) is for the guardian only.
    pub own_variable: bool,
    /// `true` if the server stays in this process's group, and so in the terminal's foreground.
    pub in_foreground: bool,
}

/// The records that a guardian keeps of a server, and removes when nothing is left of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// The name of the server's cgroup, which is that of [`SpawnRequest::cgroup_leaf`].
    pub cgroup: Option<&'a CStr>,
    /// Set if no host empties that cgroup: the guardian kills what is left inside.
    pub is_alone: bool,
    /// Set if that cgroup has a memory limit: the guardian reports when it was reached.
    pub has_memory_limit: bool,
    /// The ledger, which the guardian keeps locked; the directory that it is in, and its name.
    pub ledger: Option<(BorrowedFd<'a>, BorrowedFd<'a>, &'a CStr)>,
    /// The ring of ended servers, at the record of this server. The guardian completes the record.
    pub ring: Option<BorrowedFd<'a>>,
    /// The socket to the companion, which ends what is no descendant of the server.
    pub companion: Option<BorrowedFd<'a>>,
    /// The report of the server, and the beginning of each of its lines.
    pub report: Option<(BorrowedFd<'a>, &'a CStr)>,
    /// The patterns of processes to keep, separated by line feeds.
    pub keep: Option<&'a CStr>,
}

impl<'a> SpawnRequest<'a> {
    /// A request for a program that cannot be executed, with these standard streams.
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
            rules: None,
            orphan: false,
            own_variable: false,
            in_foreground: false,
        }
    }

    /// Has the server born in this cgroup.
    #[must_use]
    pub fn in_cgroup(self, doors: Option<&'a Doors>) -> Self {
        Self {
            cgroup_leaf: doors.map(|doors| doors.directory.as_fd()),
            cgroup_procs: doors.map(|doors| doors.procs.as_fd()),
            cgroup_kill: doors.map(|doors| doors.kill.as_fd()),
            ..self
        }
    }
}

/// Failure to start a guardian. Nothing is left of the attempt, unless the guardian could not be
/// held and has not ended.
#[derive(Debug, thiserror::Error)]
pub enum SpawnGuardianError {
    /// This build has none for its architecture, or the kernel lacks what it needs.
    #[error("no guardian is available")]
    Unavailable(#[source] io::Error),
    /// This system refuses to execute the guardian, from memory as well as from a file.
    #[error("this system refuses to execute the guardian")]
    Refused(#[source] io::Error),
    #[error("the guardian cannot be started: {action}")]
    Failed {
        action: &'static str,
        #[source]
        source: io::Error,
    },
}

/// The step of a guardian that was started, could not be held, and has not ended.
const NOT_ENDED: &str = "its pidfd (it was told to end, and had not done so after 5 s)";

impl SpawnGuardianError {
    pub fn may_have_left_one(&self) -> bool {
        matches!(self, Self::Failed { action, .. } if *action == NOT_ENDED)
    }
}

pub(super) static IMAGE: Image = image();

/// Starts the guardian, which starts the server and [reports](super::protocol::Report) later whether
/// that runs. Blocks for the time of one `posix_spawn`, which does not depend on the size of the host.
pub fn spawn(request: SpawnRequest<'_>) -> Result<GuardianHandle, SpawnGuardianError> {
    spawn_from(&IMAGE, request)
}

/// Does the same as [`spawn`], from a given image.
#[doc(hidden)]
pub fn spawn_from(
    image: &Image,
    request: SpawnRequest<'_>,
) -> Result<GuardianHandle, SpawnGuardianError> {
    let (control, theirs) = prepare()?;
    let pid = start(image, &request, theirs.as_fd())?;
    // If the host kept the guardian's end, it would never see the socket close.
    drop(theirs);
    let held = sys::Pid::new(pid.as_raw().into()).map(sys::hold);
    match held.unwrap_or_else(|| Err(Errno::ESRCH.into())) {
        Ok(pidfd) => Ok(GuardianHandle::new(pid, pidfd, control)),
        Err(error) => {
            // It ends everything when the socket closes, and is reaped by pid.
            drop(control);
            let action = match reap_in_time(pid) {
                true => "its pidfd (it was ended again)",
                false => NOT_ENDED,
            };
            Err(failed(action)(error))
        }
    }
}

/// Returns both ends of a new guardian's control socket, the host's first.
pub(super) fn prepare() -> Result<(OwnedFd, OwnedFd), SpawnGuardianError> {
    check_support().map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => SpawnGuardianError::Unavailable(error),
        _ => failed("its program")(error),
    })?;
    unreaped::reap();
    control_pair().map_err(failed("its socket"))
}

/// Reaps a guardian that ends and has no pidfd to wait with, within 5 s.
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
    let descriptors =
        Descriptors::new(&passed(request, control)).map_err(failed("its descriptors"))?;
    let parameters = parameters(request, descriptors.flags);
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

/// Returns the descriptors of a guardian, each with its agreed number.
pub(super) fn passed<'a>(
    request: &SpawnRequest<'a>,
    control: BorrowedFd<'a>,
) -> [(Option<BorrowedFd<'a>>, RawFd); 13] {
    let Record { ledger, report, .. } = request.record;
    [
        (Some(request.stdin), 0),
        (Some(request.stdout), 1),
        (Some(request.stderr), 2),
        (Some(control), CONTROL_FD),
        (request.cgroup_leaf, CGROUP_LEAF_FD),
        (request.cgroup_procs, CGROUP_PROCS_FD),
        (request.cgroup_kill, CGROUP_KILL_FD),
        (ledger.map(|(file, ..)| file), LEDGER_FD),
        (ledger.map(|(_, dir, _)| dir), LEDGER_DIR_FD),
        (request.record.ring, RING_FD),
        (request.record.companion, COMPANION_FD),
        (report.map(|(file, _)| file), REPORT_FD),
        (request.rules, RULES_FD),
    ]
}

pub(super) fn parameters(request: &SpawnRequest<'_>, flags: u32) -> [CString; PARAM_COUNT] {
    let Record { ledger, report, .. } = request.record;
    [
        c"mcp-guardian".to_owned(),
        number(process::id()),
        number(
            flags
                | (u32::from(request.pid_namespace) * FLAG_PID_NAMESPACE)
                | (u32::from(request.record.is_alone) * FLAG_ALONE)
                | (u32::from(request.record.has_memory_limit) * FLAG_MEMORY)
                | (u32::from(request.orphan) * FLAG_ORPHAN)
                | (u32::from(request.own_variable) * FLAG_OWN_VARIABLE)
                | (u32::from(request.in_foreground) * FLAG_FOREGROUND),
        ),
        number(u32::try_from(request.grace.as_millis()).unwrap_or(u32::MAX)),
        request.record.cgroup.map(beside).unwrap_or_default(),
        ledger.map_or(c"", |(.., name)| name).to_owned(),
        request.cwd.unwrap_or_default().to_owned(),
        request.program.to_owned(),
        request.record.keep.unwrap_or_default().to_owned(),
        report.map_or(c"", |(_, beginning)| beginning).to_owned(),
    ]
}

struct Descriptors {
    actions: PosixSpawnFileActions,
    flags: u32,
    /// Copies that must live until the spawn.
    _moved: Vec<OwnedFd>,
}

impl Descriptors {
    fn new(passed: &[(Option<BorrowedFd<'_>>, RawFd)]) -> io::Result<Self> {
        let mut actions = PosixSpawnFileActions::init()?;
        let mut flags = 0;
        let mut moved = Vec::new();
        for &(fd, target) in passed {
            let Some(fd) = fd else { continue };
            let mut source = fd.as_raw_fd();
            // One action must not overwrite the source of a later one. (A descriptor that already
            // has its number would stay closed on exec.)
            if source < FIRST_FREE_FD {
                let copy = sys::duplicate_from(fd, FIRST_FREE_FD)?;
                source = copy.as_raw_fd();
                moved.push(copy);
            }
            actions.add_dup2(source, target)?;
            flags |= flag_of(target);
        }
        Ok(Self {
            actions,
            flags,
            _moved: moved,
        })
    }
}

/// Blocks every signal, so that none can end the guardian at any instant. The guardian resets the
/// actions itself; naming them here spares the C library a query for each one.
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
    /// The file is busy while a fork of another thread has it open for writing.
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

fn beside(cgroup: &CStr) -> CString {
    CString::new([b"../", cgroup.to_bytes()].concat()).unwrap_or_default()
}

pub(super) fn number(number: u32) -> CString {
    CString::new(number.to_string()).unwrap_or_default()
}

pub(super) fn failed(action: &'static str) -> impl FnOnce(io::Error) -> SpawnGuardianError {
    move |source| SpawnGuardianError::Failed { action, source }
}
