//! Starting the server, and the child's side of it up to exec.

use crate::birth::{self, ALIVE, Events};
use crate::control::Control;
use crate::namespace::{self, Namespace};
use crate::params::Params;
use crate::protocol::Stage;
use crate::record::Record;
use crate::staying::Staying;
use crate::sys::{self, Args, Errno, Fd, Fork, Nanos, Pid, Signals};

/// A server whose process exists. Whether it becomes the program is what [`Server::outcome`] will say.
pub(crate) struct Server {
    pub(crate) pid: Pid,
    /// Readable when the host dies; `None` where pidfds do not exist.
    pub(crate) host: Option<Fd>,
    /// Readable when a child changes state.
    pub(crate) children: Fd,
    /// Readable when the outcome of exec is known.
    pub(crate) outcome: Fd,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) cgroup_kill: Option<Fd>,
    /// As of [`Params::grace`].
    pub(crate) grace: Nanos,
    pub(crate) record: Record,
    pub(crate) staying: Staying,
}

pub(crate) enum Failure {
    /// The host died first.
    HostGone,
    Failed(Stage, Errno),
}

/// The outcome of the child's exec, as far as it is known.
pub(crate) enum Outcome {
    Pending,
    Executed,
    Failed(Stage, Errno),
}

impl Server {
    pub(crate) fn outcome(&self) -> Outcome {
        let mut said = [0; REPORT_LEN];
        match sys::read(&self.outcome, &mut said[..1]) {
            // Closed by exec, or with the child, which was killed before. The wait status tells.
            Ok(0) => Outcome::Executed,
            // What follows is still to come.
            Ok(_) if said[0] == ALIVE => Outcome::Pending,
            Ok(_) => {
                // Written at once, with the first.
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

/// A guardian that could start a server.
pub(crate) struct Ready {
    /// Readable when the host dies; `None` where pidfds do not exist.
    pub(crate) host: Option<Fd>,
    children: Fd,
    outcome: Fd,
    report: Fd,
}

/// All that needs no server.
pub(crate) fn prepare(host: u32) -> Result<Ready, Failure> {
    let failed = |stage| move |errno| Failure::Failed(stage, errno);
    sys::become_subreaper().map_err(failed(Stage::Subreaper))?;
    let host = watch(host)?;
    let children = sys::signalfd(Signals::CHILDREN).map_err(failed(Stage::ChildExits))?;
    let (outcome, report) = sys::pipe().map_err(failed(Stage::Setup))?;
    Ok(Ready {
        host,
        children,
        outcome,
        report,
    })
}

pub(crate) fn launch(
    args: &Args,
    params: Params<'_>,
    ready: Ready,
    control: &Control,
) -> Result<Server, Failure> {
    let Ready {
        host,
        children,
        outcome,
        report,
    } = ready;
    if params.pid_namespace {
        let (pid, namespace) = namespace::create(args, &params, &report)
            .map_err(|errno| Failure::Failed(Stage::Namespace, errno))?;
        return Ok(started(params, pid, host, children, outcome, Some(namespace)));
    }
    let guardian = sys::getpid();
    let events = Events {
        host: host.as_ref(),
        control,
        children: &children,
        outcome: &outcome,
    };
    let (fork, is_inside) =
        birth::fork(&params, &report, &events).map_err(|errno| Failure::Failed(Stage::Fork, errno))?;
    match fork {
        Fork::Child => {
            let joined = if is_inside { Ok(()) } else { join_cgroup(&params) };
            let (stage, errno) = match joined.map_err(|errno| (Stage::Cgroup, errno)) {
                Ok(()) => become_server(args, &params, guardian),
                Err(failed) => failed,
            };
            fail(&report, stage, errno)
        }
        Fork::Parent(pid) => Ok(started(params, pid, host, children, outcome, None)),
    }
}

fn started(
    mut params: Params<'_>,
    pid: Pid,
    host: Option<Fd>,
    children: Fd,
    outcome: Fd,
    namespace: Option<Namespace>,
) -> Server {
    // As the child does: whoever comes first. A group to signal exists before anything can ask for it.
    sys::lead_group(Some(pid));
    // The server's streams: a copy here would hide the server's end of file from the host, and the host's from the server.
    (0..3).for_each(|fd| drop(sys::inherited(fd)));
    Server {
        pid,
        host,
        children,
        outcome,
        namespace,
        record: Record::take(&mut params),
        staying: Staying::new(params.keep.to_bytes()),
        cgroup_kill: params.cgroup_kill,
        grace: params.grace,
    }
}

/// Says what failed before exec, and ends.
pub(crate) fn fail(report: &Fd, stage: Stage, errno: Errno) -> ! {
    let [a, b, c, d] = errno.0.to_le_bytes();
    let _ = sys::write(report, &[stage.to_byte(), a, b, c, d]);
    sys::exit(crate::EXIT_NOT_STARTED)
}

/// Writing "0" places the writer. The opener's rights count, so this works wherever the host could open the file.
pub(crate) fn join_cgroup(params: &Params<'_>) -> sys::Result<()> {
    match &params.cgroup_procs {
        Some(procs) => sys::write(procs, b"0").map(|_| ()),
        None => Ok(()),
    }
}

/// A pidfd of the host, proven to be of the host.
fn watch(host: u32) -> Result<Option<Fd>, Failure> {
    // Without a pidfd the socket's end of file has to do.
    let pidfd = sys::pidfd_open(host).ok();
    // Our parent has not been reaped by anyone before we see it as our parent, so the number was the host's when the pidfd was opened.
    if sys::getppid() == host {
        Ok(pidfd)
    } else {
        Err(Failure::HostGone)
    }
}

/// Between fork and exec. Returns what failed.
///
/// Every descriptor but the server's streams closes on exec.
pub(crate) fn become_server(args: &Args, params: &Params<'_>, guardian: u32) -> (Stage, Errno) {
    sys::lead_group(None);
    // The guardian has a single thread, so its death is the only thing this reacts to.
    if let Err(errno) = sys::die_with_parent() {
        return (Stage::DeathSignal, errno);
    }
    if sys::getppid() != guardian {
        sys::exit(crate::EXIT_NOT_STARTED);
    }
    if let Some(directory) = &params.directory
        && let Err(errno) = sys::fchdir(directory)
    {
        return (Stage::Chdir, errno);
    }
    if let Some(cwd) = params.cwd
        && let Err(errno) = sys::chdir(cwd)
    {
        return (Stage::Chdir, errno);
    }
    sys::unblock_all_signals();
    (
        Stage::Exec,
        sys::exec(params.program, args, params.first),
    )
}
