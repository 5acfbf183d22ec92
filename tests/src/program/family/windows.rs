//! Descendants are this program once more: nothing forks here.

use std::io::{self, Read, Write};
use std::os::windows::process::CommandExt;
use std::process::{self, Child, Command, Stdio};
use std::thread;

use windows_sys::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, DETACHED_PROCESS};

use super::{DEAF, Descendant, reexec};
use crate::program::alive::Alive;
use crate::program::{Context, exit};

impl Descendant {
    /// Starts a process that stays until it is killed or nobody watches, and returns when it has said hello.
    pub(crate) fn start(self, context: &Context, role: &str) {
        self.start_shape(context, "linger", role);
    }

    /// Like [`start`](Self::start) without the wait: many at once.
    pub(crate) fn start_and_go_on(self, context: &Context, role: &str) {
        drop(self.spawn(reexec(context, "linger", role), Stdio::null()));
    }

    fn start_shape(self, context: &Context, shape: &str, role: &str) {
        self.start_and_hear(reexec(context, shape, role));
    }

    /// Returns when it has said that it is there, or has ended.
    #[expect(clippy::zombie_processes, reason = "there are none on Windows")]
    fn start_and_hear(self, command: Command) {
        let mut child = self.spawn(command, Stdio::piped());
        if let Some(mut stderr) = child.stderr.take() {
            let _ = stderr.read(&mut [0]);
        }
    }

    fn spawn(self, mut command: Command, stderr: Stdio) -> Child {
        if self.own_session {
            command.creation_flags(DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP);
        }
        if self.ignore_term {
            command.arg("--ignore-term");
        }
        let stdout = match self.keep_stdout {
            true => Stdio::inherit(),
            false => Stdio::null(),
        };
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        match command.spawn() {
            Ok(child) => child,
            Err(error) => exit::refused("spawn", error),
        }
    }
}

/// Starts a daemon: without a console, and its parent has ended.
pub(crate) fn start_daemon(context: &Context) {
    DEAF.start_shape(context, BETWEEN, "between");
}

/// Starts a daemon that starts another one with an empty environment, and ends.
pub(crate) fn start_wiped_daemon(context: &Context) {
    DEAF.start_shape(context, BETWEEN_WIPED, "between");
}

/// Shapes of processes that start the daemon, and end.
const BETWEEN: &str = "between";
const BETWEEN_WIPED: &str = "between-wiped";
const WIPES: &str = "wipes";

/// Is one of the processes above, if `shape` names one.
pub(crate) fn between(context: &Context, shape: &str) {
    match shape {
        BETWEEN => DEAF.start(context, "daemon"),
        BETWEEN_WIPED => DEAF.start_shape(context, WIPES, "daemon"),
        WIPES => {
            let mut command = reexec(context, "linger", "wiped-env");
            command.env_clear();
            // Without it there are no sockets.
            command.envs(std::env::var_os("SYSTEMROOT").map(|root| ("SYSTEMROOT", root)));
            DEAF.start_and_hear(command);
        }
        _ => return,
    }
    process::exit(0)
}

/// Stays until killed, or until nobody watches. Says first that it is there.
pub(crate) fn linger(alive: Option<&Alive>) -> ! {
    let _ = io::stderr().write_all(b"\n");
    match alive {
        Some(alive) => alive.answer(),
        None => loop {
            thread::park();
        },
    }
}
