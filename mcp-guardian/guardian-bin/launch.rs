//! Starts the server by the host's parameters, up to exec in the child. The host's half is
//! `src/program/spawn.rs`.
//!
//! Its process is created in its cgroup if that works; joining by `cgroup.procs` waits for a kernel
//! grace period of 7 to 16 ms. Linux 6.18 kills a child at birth if its parent's cgroup was ever
//! killed, and filters refuse the call: so the child reports that it is alive, and otherwise a
//! second one joins.

use core::ffi::CStr;

use crate::account::Account;
use crate::control::Control;
use crate::namespace::{self, Namespace};
use crate::protocol::{
    CGROUP_KILL_FD, CGROUP_LEAF_FD, CGROUP_PROCS_FD, COMPANION_FD, FLAG_ALONE, FLAG_FOREGROUND, FLAG_MEMORY, FLAG_ORPHAN, FLAG_OWN_VARIABLE,
    FLAG_PID_NAMESPACE, GATE_FD, GO, LEDGER_DIR_FD, LEDGER_FD, PARAM_COUNT, PROGRAM_PARAM, REPORT_FD, RING_FD, RULES_FD, Stage,
    flag_of,
};
use crate::record::{Record, Slot};
use crate::stat::number;
use crate::sys::{self, Args, Errno, Fd, Fork, Pid, PollFd, Reaped, Signals};

/// The parameters from the host: in argv, and descriptors by agreed numbers.
pub(crate) struct Params {
    pub(crate) host: u32,
    pub(crate) grace: u64,
    pub(crate) cwd: Option<&'static CStr>,
    pub(crate) program: &'static CStr,
    /// The way to a server's process that the host has forked.
    pub(crate) gate: Option<Fd>,
    /// The rules that the server is restricted to.
    pub(crate) rules: Option<Fd>,
    pub(crate) pid_namespace: bool,
    pub(crate) orphan: bool,
    /// The server stays in the host's process group.
    pub(crate) in_foreground: bool,
    pub(crate) cgroup_procs: Option<Fd>,
    pub(crate) cgroup_kill: Option<Fd>,
    pub(crate) record: Record,
    pub(crate) keep: &'static CStr,
}

impl Params {
    pub(crate) fn take(args: &Args) -> Option<Self> {
        let text = |index| args.parameter(index);
        let host = number(text(1)?.to_bytes())?;
        let flags: u32 = number(text(2)?.to_bytes())?;
        let grace: u64 = number(text(3)?.to_bytes())?;
        let cwd = text(6)?;
        args.get(PARAM_COUNT)?;
        if flags & FLAG_OWN_VARIABLE != 0 {
            sys::keep_last_variable(args);
        }
        // Descriptors that were not passed belong to the host and are closed.
        let taken = |fd| match flags & flag_of(fd) {
            0 => {
                sys::close(fd);
                None
            }
            _ => sys::inherited(fd),
        };
        Some(Self {
            host,
            grace: grace.saturating_mul(1_000_000),
            cwd: (!cwd.is_empty()).then_some(cwd),
            program: text(PROGRAM_PARAM)?,
            gate: taken(GATE_FD),
            rules: taken(RULES_FD),
            keep: text(8)?,
            pid_namespace: flags & FLAG_PID_NAMESPACE != 0,
            orphan: flags & FLAG_ORPHAN != 0,
            in_foreground: flags & FLAG_FOREGROUND != 0,
            cgroup_procs: taken(CGROUP_PROCS_FD),
            cgroup_kill: taken(CGROUP_KILL_FD),
            record: Record {
                leaf: taken(CGROUP_LEAF_FD),
                path: text(4)?,
                is_alone: flags & FLAG_ALONE != 0,
                has_memory_limit: flags & FLAG_MEMORY != 0,
                _ledger: taken(LEDGER_FD),
                ledger_dir: taken(LEDGER_DIR_FD),
                ledger_name: text(5)?,
                ring: taken(RING_FD).and_then(Slot::new),
                companion: taken(COMPANION_FD),
                account: match taken(REPORT_FD) {
                    Some(to) => Some(Account { to, beginning: text(9)?, log: sys::seek_back(&sys::STDERR, 0).ok() }),
                    None => None,
                },
            },
        })
    }
}

pub(crate) struct Server {
    pub(crate) pid: Pid,
    /// Readable when the host dies; `None` without pidfds.
    pub(crate) host: Option<Fd>,
    /// Readable when a child changes state.
    pub(crate) children: Fd,
    /// Readable when the outcome of exec is known.
    pub(crate) outcome: Fd,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) params: Params,
}

pub(crate) enum Failure {
    HostGone,
    Failed(Stage, Errno),
}

pub(crate) enum Outcome {
    Pending,
    Executed,
    Failed(Stage, Errno),
}

impl Server {
    pub(crate) fn outcome(&self) -> Outcome {
        let mut said = [0; REPORT_LEN];
        match sys::read(&self.outcome, &mut said[..1]) {
            // Closed by exec, or by the death of the child before it; the wait status tells which.
            Ok(0) => Outcome::Executed,
            Ok(_) if said[0] == ALIVE => Outcome::Pending,
            Ok(_) => {
                let _ = sys::read(&self.outcome, &mut said[1..]);
                let [stage, a, b, c, d] = said;
                Outcome::Failed(
                    Stage::from_byte(stage).unwrap_or(Stage::Exec),
                    Errno(i32::from_le_bytes([a, b, c, d])),
                )
            }
            Err(_) => Outcome::Pending,
        }
    }
}

const REPORT_LEN: usize = 5;
/// First byte of the report from a child in its cgroup; no stage has this number.
const ALIVE: u8 = 0;

pub(crate) fn launch(args: &Args, mut params: Params, control: &Control) -> Result<Server, Failure> {
    let failed = |stage| move |errno| Failure::Failed(stage, errno);
    sys::become_subreaper().map_err(failed(Stage::Subreaper))?;
    let host = watch(params.host)?;
    let children = sys::signalfd(Signals::CHILDREN).map_err(failed(Stage::ChildExits))?;
    if let Some(gate) = params.gate.take() {
        let leader = number(params.program.to_bytes()).and_then(Pid::new).ok_or(Errno::ESRCH);
        let leader = leader.map_err(failed(Stage::Fork))?;
        sys::write(&gate, &GO).map_err(failed(Stage::Fork))?;
        // Its other end closes on exec.
        return Ok(started(params, leader, host, children, gate, None));
    }
    let (outcome, report) = sys::pipe().map_err(failed(Stage::Setup))?;
    if params.pid_namespace {
        let (pid, namespace) = namespace::create(args, &params, report).map_err(failed(Stage::Namespace))?;
        return Ok(started(params, pid, host, children, outcome, Some(namespace)));
    }
    let guardian = sys::getpid();
    let is_born = |pid| is_born(pid, &outcome, &children, host.as_ref(), control);
    let (fork, is_inside) = fork(&params, &report, is_born).map_err(failed(Stage::Fork))?;
    match fork {
        Fork::Child => {
            let joined = if is_inside { Ok(()) } else { join_cgroup(&params) };
            let (stage, errno) = match joined {
                Ok(()) => become_server(args, &params, guardian),
                Err(errno) => (Stage::Cgroup, errno),
            };
            fail(&report, stage, errno)
        }
        Fork::Parent(pid) => Ok(started(params, pid, host, children, outcome, None)),
    }
}

/// Creates the server's process, in its cgroup if that child `is_born`. In the child, the second
/// value tells whether it is inside.
fn fork(params: &Params, report: &Fd, is_born: impl Fn(Pid) -> bool) -> sys::Result<(Fork, bool)> {
    let leads = !params.in_foreground;
    match params.record.leaf.as_ref().map(|leaf| sys::fork_into(leaf, leads)) {
        Some(Ok(Fork::Child)) => {
            if sys::write(report, &[ALIVE]) != Ok(1) {
                // The guardian handles this exit like a kill at birth.
                sys::exit(crate::EXIT_NOT_STARTED);
            }
            return Ok((Fork::Child, true));
        }
        Some(Ok(Fork::Parent(pid))) if is_born(pid) => return Ok((Fork::Parent(pid), true)),
        Some(_) | None => {}
    }
    let fork = if leads { sys::fork_leader() } else { sys::fork() };
    fork.map(|fork| (fork, false))
}

/// Waits for the child's first report, an order, or the host's end. Returns `false` only if it was
/// killed at birth and nothing else happened; it is reaped then.
fn is_born(pid: Pid, outcome: &Fd, children: &Fd, host: Option<&Fd>, control: &Control) -> bool {
    loop {
        let mut fds = [
            PollFd::readable(Some(outcome)),
            PollFd::readable(Some(children)),
            PollFd::readable(host),
            control.events(),
        ];
        sys::poll(&mut fds, None);
        let [outcome, exits, host, control] = fds;
        // An order is sent before the cgroup is killed, so it is ready as well if that killed the
        // child.
        if outcome.ready() || host.ready() || control.ready() || !exits.ready() {
            return true;
        }
        let _ = sys::read(children, &mut [0; 128]);
        if let Reaped::Child(..) = sys::reap_one(pid) {
            return false;
        }
    }
}

fn started(
    mut params: Params,
    pid: Pid,
    host: Option<Fd>,
    children: Fd,
    outcome: Fd,
    namespace: Option<Namespace>,
) -> Server {
    // After the fork: the server stays in the host's session, and so in its scheduler autogroup.
    sys::setsid();
    // A copy of the server's streams here would hide the end of file of either side.
    let has_log = params.record.account.as_ref().is_some_and(|account| account.log.is_some());
    (0..if has_log { 2 } else { 3 }).for_each(sys::close);
    params.cgroup_procs = None;
    Server {
        pid,
        host,
        children,
        outcome,
        namespace,
        params,
    }
}

pub(crate) fn fail(report: &Fd, stage: Stage, errno: Errno) -> ! {
    let [a, b, c, d] = errno.0.to_le_bytes();
    let _ = sys::write(report, &[stage as u8, a, b, c, d]);
    sys::exit(crate::EXIT_NOT_STARTED)
}

/// Joins the cgroup by writing "0". The opener's permissions count: the host's.
pub(crate) fn join_cgroup(params: &Params) -> sys::Result<()> {
    match &params.cgroup_procs {
        Some(procs) => sys::write(procs, b"0").map(|_| ()),
        None => Ok(()),
    }
}

fn watch(host: u32) -> Result<Option<Fd>, Failure> {
    let pidfd = sys::pidfd_open(host).ok();
    // Our parent cannot have been reaped while it is our parent, so the pid was the host's when the
    // pidfd was opened.
    if sys::getppid() == host {
        Ok(pidfd)
    } else {
        Err(Failure::HostGone)
    }
}

/// Runs between fork and exec. Returns what failed.
pub(crate) fn become_server(args: &Args, params: &Params, guardian: u32) -> (Stage, Errno) {
    // The guardian has one thread, so this reacts only to its death.
    if let Err(errno) = sys::die_with_parent() {
        return (Stage::DeathSignal, errno);
    }
    if sys::getppid() != guardian {
        sys::exit(crate::EXIT_NOT_STARTED);
    }
    if let Some(cwd) = params.cwd
        && let Err(errno) = sys::chdir(cwd)
    {
        return (Stage::Chdir, errno);
    }
    if let Some(rules) = &params.rules
        && let Err(errno) = sys::restrict(rules)
    {
        return (Stage::Restrict, errno);
    }
    sys::block(Signals::NONE);
    (Stage::Exec, sys::exec(params.program, args, PARAM_COUNT))
}
