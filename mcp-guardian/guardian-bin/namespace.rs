//! A server in a PID namespace. This program is also the namespace's init.
//!
//! The kernel ends everything in the namespace when its init ends, and init ends when the guardian
//! does, for any reason.

use crate::launch::{self, Params};
use crate::procfs::Path;
use crate::protocol::{CONTROL_FD, Stage};
use crate::sys::{self, Args, Errno, Fd, Fork, Pid, PollFd, Reaped, Signals};

pub(crate) struct Namespace {
    /// Receives the wait status of the server's own process.
    pub(crate) status: Fd,
    /// Closing it ends init. Never written to.
    _lifeline: Fd,
}

/// Creates the init of a new namespace. Returns in the guardian only.
pub(crate) fn create(args: &Args, params: &Params, report: Fd) -> Result<(Pid, Namespace), Errno> {
    let (status, inner_status) = sys::pipe()?;
    let (inner_lifeline, lifeline) = sys::pipe()?;
    // Read outside: inside they have no meaning before they are mapped.
    let ids = sys::effective_ids();
    let (forked, is_mapped) = sys::fork_into_namespace()?;
    if let Fork::Parent(pid) = forked {
        let namespace = Namespace {
            status,
            _lifeline: lifeline,
        };
        return Ok((pid, namespace));
    }
    // A copy would keep init alive.
    drop(lifeline);
    sys::close(CONTROL_FD);
    match start(args, params, (!is_mapped).then_some(ids)) {
        Ok((server, children)) => {
            (0..3).for_each(sys::close);
            // The server's copy is now the last one, and closes on exec.
            drop(report);
            let _ = sys::chdir(c"/");
            sys::set_name(c"mcp-init");
            watch(server, &children, &inner_status, &inner_lifeline)
        }
        Err((stage, errno)) => launch::fail(&report, stage, errno),
    }
}

/// Starts the server inside. Returns it, and the descriptor of the exits of init's children.
fn start(args: &Args, params: &Params, unmapped: Option<(u32, u32)>) -> Result<(Pid, Fd), (Stage, Errno)> {
    /// Pid of the server's parent inside.
    const INIT: u32 = 1;
    let failed = |stage| move |errno| (stage, errno);
    sys::die_with_parent().map_err(failed(Stage::Namespace))?;
    if let Some((uid, gid)) = unmapped {
        map_ids(uid, gid).map_err(failed(Stage::Namespace))?;
    }
    launch::join_cgroup(params).map_err(failed(Stage::Cgroup))?;
    let children = sys::signalfd(Signals::CHILDREN).map_err(failed(Stage::ChildExits))?;
    match sys::fork_leader().map_err(failed(Stage::Fork))? {
        Fork::Child => Err(launch::become_server(args, params, INIT)),
        Fork::Parent(server) => Ok((server, children)),
    }
}

/// Reaps, and reports the server's end. Exits once the namespace is empty or the guardian is gone.
fn watch(server: Pid, children: &Fd, status: &Fd, lifeline: &Fd) -> ! {
    loop {
        let mut fds = [PollFd::readable(Some(children)), PollFd::readable(Some(lifeline))];
        sys::poll(&mut fds, None);
        let [exits, end] = fds;
        if end.ready() {
            sys::exit(crate::EXIT_NOT_STARTED);
        }
        if exits.ready() {
            let _ = sys::read(children, &mut [0; 128]);
        }
        loop {
            match sys::reap() {
                Reaped::Child(pid, exit) if pid == server.get() => {
                    let _ = sys::write(status, &exit.to_le_bytes());
                }
                Reaped::Child(..) => {}
                Reaped::NoneYet => break,
                Reaped::NoChildren => sys::exit(0),
            }
        }
    }
}

/// Maps the user to itself in its own user namespace.
fn map_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    write_file(c"/proc/self/setgroups", b"deny")?;
    for (path, id) in [(c"/proc/self/uid_map", uid), (c"/proc/self/gid_map", gid)] {
        let mut mapping = Path::new();
        mapping.number(id.into()).then(" ").number(id.into()).then(" 1");
        write_file(path, mapping.bytes())?;
    }
    Ok(())
}

fn write_file(path: &core::ffi::CStr, text: &[u8]) -> Result<(), Errno> {
    let file = sys::open_to_write(path)?;
    sys::write(&file, text).map(|_| ())
}
