//! Servers that are not alone: wrappers, helpers, sessions of their own.

use std::process::{self, Command};
#[cfg(unix)]
use std::{os::unix::process::CommandExt, path::Path};

use super::ending::DiesMidCall;
use crate::program::family::{DEAF, Descendant, reexec};
use crate::program::serve::{Plain, serve};
#[cfg(unix)]
use crate::program::sys;
use crate::program::{Context, exit};

/// A shell that waits for the server, as package runners and start scripts do.
#[cfg(unix)]
pub(super) fn sh_wrapper(context: &Context) -> ! {
    let mut server = reexec(context, "plain", "server");
    if !Path::new("/bin/sh").exists() {
        // In an image without a shell: the same shape, a parent that waits.
        match server.status() {
            Ok(_) => process::exit(0),
            Err(error) => exit::refused("spawn", error),
        }
    }
    let error = Command::new("/bin/sh")
        // A command after the server's keeps the shell from replacing itself by it.
        .args(["-c", r#""$0" "$@"; true"#])
        .arg(server.get_program())
        .args(server.get_args())
        .exec();
    exit::refused("exec /bin/sh", error)
}

/// The command interpreter, which waits for the server, as `npx.cmd` does; this process waits for both.
#[cfg(windows)]
pub(super) fn sh_wrapper(context: &Context) -> ! {
    let server = reexec(context, "plain", "server");
    let mut shell = Command::new("cmd.exe");
    shell.args(["/d", "/c"]).arg(server.get_program());
    match shell.args(server.get_args()).status() {
        Ok(_) => process::exit(0),
        Err(error) => exit::refused("cmd.exe", error),
    }
}

/// The process that the launcher started has gone, what it started has not.
pub(super) fn leader_exits_first(context: &Context) -> ! {
    Descendant::default().start(context, "helper");
    process::exit(0)
}

pub(super) fn helper(context: Context) -> ! {
    Descendant::default().start(&context, "helper");
    serve(context, &mut Plain)
}

pub(super) fn setsid(context: Context) -> ! {
    DEAF.start(&context, "setsid");
    serve(context, &mut Plain)
}

/// A browser, a build: many processes, each of which left the group.
pub(super) fn burst(context: Context) -> ! {
    for number in 1..=context.args.count {
        DEAF.start_and_go_on(&context, &format!("burst-{number}"));
    }
    serve(context, &mut Plain)
}

/// A session of its own, and polite, but its main thread has ended: `/proc` says
/// "zombie".
#[cfg(unix)]
pub(super) fn headless(context: Context) -> ! {
    let polite = Descendant {
        own_session: true,
        ..Descendant::default()
    };
    polite.start_as(&context, "headless", |context| {
        if let Some(alive) = &context.alive {
            alive.answer_in_background();
        }
        sys::exit_main_thread()
    });
    serve(context, &mut Plain)
}

/// The end of the leader's stdout never comes.
pub(super) fn holds_stdout(context: Context) -> ! {
    let holder = Descendant {
        keep_stdout: true,
        ..Descendant::default()
    };
    holder.start(&context, "holder");
    serve(context, &mut DiesMidCall)
}
