//! Descendants are forked.

use std::convert::Infallible;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;

use nix::unistd::setsid;

use super::{Descendant, reexec};
use crate::program::alive::Alive;
use crate::program::{Context, exit, sys};

impl Descendant {
    /// Forks a process that stays until it is killed or nobody watches, and
    /// returns when it has said hello: a leader that leaves at once may take its
    /// descendants with it, and the observer wants to have seen them.
    pub(crate) fn start(self, context: &Context, role: &str) {
        let (mut reader, writer) = match std::io::pipe() {
            Ok(pipe) => pipe,
            Err(error) => exit::refused("pipe", error),
        };
        // Both processes have the writer; ours is dropped with the closure.
        self.start_then(context, role, move || drop(writer), stay);
        let _ = reader.read(&mut [0]);
    }

    /// Like [`start`](Self::start), for a descendant that does `then`.
    pub(crate) fn start_as(
        self,
        context: &Context,
        role: &str,
        then: impl FnOnce(&Context) -> Infallible,
    ) {
        self.start_then(context, role, || {}, then);
    }

    /// Like [`start`](Self::start) without the wait: many at once.
    pub(crate) fn start_and_go_on(self, context: &Context, role: &str) {
        self.start_then(context, role, || {}, stay);
    }

    fn start_then(
        self,
        context: &Context,
        role: &str,
        connected: impl FnOnce(),
        then: impl FnOnce(&Context) -> Infallible,
    ) {
        let mut context = context.clone();
        sys::fork_into(context.args.lifetime, move || {
            if self.own_session && setsid().is_err() {
                exit::refused("setsid", "refused");
            }
            sys::report_sigterm(self.ignore_term);
            context.connect(role);
            connected();
            sys::detach_stdio(self.keep_stdout);
            match then(&context) {}
        });
    }
}

fn stay(context: &Context) -> Infallible {
    linger(context.alive.as_ref())
}

/// Starts a daemon that stays.
pub(crate) fn start_daemon(context: &Context) {
    start_daemon_then(context, stay);
}

/// Starts a daemon that then has an empty environment.
pub(crate) fn start_wiped_daemon(context: &Context) {
    start_daemon_then(context, wipe_environment);
}

/// Starts a process with an empty environment that is forked twice, and stays
/// in the server's session and group.
pub(crate) fn start_wiped_orphan(context: &Context) {
    fork_twice_then(context, || {}, wipe_environment);
}

/// Forks a classic daemon: two forks, a session of its own, every inherited
/// descriptor closed, deaf to SIGTERM. Then runs `then` in it.
fn start_daemon_then(context: &Context, then: fn(&Context) -> Infallible) {
    let leave = || {
        if setsid().is_err() {
            exit::refused("setsid", "refused");
        }
    };
    fork_twice_then(context, leave, then);
}

fn fork_twice_then(context: &Context, between: fn(), then: fn(&Context) -> Infallible) {
    let mut context = context.clone();
    let lifetime = context.args.lifetime;
    sys::reap_children_automatically();
    // The process in between does not introduce itself: it has nothing to do
    // but to exit, and holds the connection that it inherited until then.
    sys::fork_into(lifetime, move || {
        between();
        sys::fork_into(lifetime, move || {
            sys::report_sigterm(true);
            let inherited = context.alive.take();
            context.connect("daemon");
            sys::detach_stdio(false);
            if let Some(alive) = &context.alive {
                // Its owner must not close a number that is somebody else's by then.
                std::mem::forget(inherited);
                sys::close_all_but(alive.as_fd());
            }
            match then(&context) {}
        });
    });
}

/// Replaces this process by a fixture with an empty environment.
fn wipe_environment(context: &Context) -> Infallible {
    let error = reexec(context, "linger", "wiped-env").env_clear().exec();
    exit::refused("exec", error)
}

/// Stays until killed, or until nobody watches.
pub(crate) fn linger(alive: Option<&Alive>) -> ! {
    match alive {
        Some(alive) => alive.answer(),
        None => sleep_forever(),
    }
}

/// Stays until killed. The process's alarm bounds it.
fn sleep_forever() -> ! {
    loop {
        nix::unistd::pause();
    }
}
