//! The server's process: born in its cgroup where the kernel does that, else with the joining before it.
//!
//! To join by `cgroup.procs` is to wait for a grace period of the kernel's, of 7 to 16 ms on an idle machine; to be born inside takes nothing. But a
//! kernel that counts kills kills a child at birth when its parent's cgroup was killed once (Linux 6.18), and filters refuse the call. So the child
//! says that it lives, and where it cannot, a second one joins. What was killed at birth has executed nothing.

use crate::control::Control;
use crate::params::Params;
use crate::sys::{self, Errno, Fd, Fork, PollFd, Reaped};

/// The first byte from a child that was born in its cgroup, where it says what failed. No stage has this number.
pub(crate) const ALIVE: u8 = 0;

/// Events while the guardian waits for the child's first word.
pub(crate) struct Events<'a> {
    pub(crate) host: Option<&'a Fd>,
    pub(crate) control: &'a Control,
    pub(crate) children: &'a Fd,
    pub(crate) outcome: &'a Fd,
}

/// Creates the process of the server. In the child, the second says whether it is in its cgroup.
pub(crate) fn fork(
    params: &Params<'_>,
    report: &Fd,
    events: &Events<'_>,
) -> Result<(Fork, bool), Errno> {
    if let Some(leaf) = &params.cgroup_leaf {
        match sys::fork_into(leaf) {
            Ok(Fork::Child) => {
                if sys::write(report, &[ALIVE]) != Ok(1) {
                    // As if killed at birth: nobody waits for ever.
                    sys::exit(crate::EXIT_NOT_STARTED);
                }
                return Ok((Fork::Child, true));
            }
            Ok(Fork::Parent(pid)) if events.is_settled(pid) => return Ok((Fork::Parent(pid), true)),
            Ok(Fork::Parent(_)) | Err(_) => {}
        }
    }
    sys::fork().map(|fork| (fork, false))
}

impl Events<'_> {
    /// Waits for the child's first word, or for an order or the host's end, which are not decided here: then it is the server, dead or alive, and no other
    /// one is created. If it was killed at birth and there is nothing else, it is reaped.
    fn is_settled(&self, pid: sys::Pid) -> bool {
        loop {
            let mut fds = [
                PollFd::readable(Some(self.outcome)),
                PollFd::readable(Some(self.children)),
                PollFd::readable(self.host),
                self.control.events(),
            ];
            sys::poll(&mut fds, None);
            let [outcome, children, host, control] = fds;
            // An order is sent before the cgroup is killed: it is ready as well, if that was what killed the child.
            if outcome.ready() || host.ready() || control.ready() || !children.ready() {
                return true;
            }
            let _ = sys::read(self.children, &mut [0; 128]);
            if let Reaped::Child(..) = sys::reap_one(pid) {
                return false;
            }
        }
    }
}
