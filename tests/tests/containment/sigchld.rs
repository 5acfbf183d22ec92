//! Hosts in which something else sees to the ends of children: an ignored
//! SIGCHLD, a thread that reaps whatever there is.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::{LaunchContext, ServerIdentity};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::gate::{Call, ask_about};
use crate::stage::{LIMIT, Stage, has_cgroups, leaves, perform, perform_by, plays};

/// A host that was started with SIGCHLD ignored, which exec passes on.
#[test]
fn an_ignored_sigchld_costs_nothing() {
    perform_by(ignoring, "sigchld::ordinary");
}

/// Not the shell: `trap '' CHLD` ignores nothing in some of them.
fn ignoring(role: Command) -> Command {
    let mut command = Command::new("env");
    command.arg("--ignore-signal=CHLD").env(IGNORED, "1");
    command.arg(role.get_program()).args(role.get_args());
    command.envs(
        role.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command
}

/// Says that SIGCHLD is ignored, which is then found out.
const IGNORED: &str = "MCP_TEST_SIGCHLD_IGNORED";

/// Whether this process plays a role, with SIGCHLD as it is to be.
fn plays_as_told() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    let is_ignored = ignored & (1 << (libc::SIGCHLD - 1)) != 0;
    assert_eq!(is_ignored, env::var_os(IGNORED).is_some(), "{ignored:x}");
    plays()
}

#[test]
#[ignore = "a role"]
fn ordinary() {
    if !plays_as_told() {
        return;
    }
    as_good_as_ever();
}

#[test]
fn a_thread_that_reaps_every_child_costs_nothing() {
    perform("sigchld::thief");
}

#[test]
#[ignore = "a role"]
fn thief() {
    if !plays() {
        return;
    }
    std::thread::spawn(|| {
        loop {
            // Nobody's children in particular: whatever there is.
            if waitpid(None, Some(WaitPidFlag::empty())).is_err() {
                std::thread::yield_now();
            }
        }
    });
    as_good_as_ever();
}

/// The cgroup is there, the proof is given, nobody and nothing is left.
fn as_good_as_ever() {
    let stage = Stage::new();
    let launcher = mcp_launcher_local::LocalLauncher::new();
    let containment = stage.wait("the probe", launcher.probe());
    assert_eq!(
        containment.fallback.is_none(),
        has_cgroups(),
        "{containment}"
    );
    for shape in ["ignore-eof-term", "double-fork"] {
        let server = stage.launch(&[shape]);
        stage.wait_for("server");
        let terminator = server.terminator().clone();
        drop(server);
        stage.wait("the proof", terminator.gone()).unwrap();
        stage.nobody_is_left();
        assert!(leaves().is_empty(), "{:?}", leaves());
    }
}

/// The group that a thread of this process signals by its number.
fn group_by_number(call: &Call) -> Option<Pid> {
    let group = (call.args[0] as i32)
        .checked_neg()
        .filter(|group| *group > 1);
    group
        .filter(|_| call.number == libc::SYS_kill && call.args[1] != 0 && is_own(call))
        .map(Pid::from_raw)
}

fn is_own(call: &Call) -> bool {
    Path::new("/proc/self/task")
        .join(call.thread.to_string())
        .exists()
}

fn exists(pid: Pid) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn of_groups() -> Stage {
    let mut stage = Stage::new();
    stage.launcher = Arc::new(
        LocalLauncher::builder()
            .isolation(Isolation::ProcessGroup)
            .build(),
    );
    stage
}

/// A process that is ended may end by itself a moment before, and its number be free.
#[test]
fn a_launch_that_is_undone_signals_no_number_that_may_be_a_strangers() {
    perform_by(ignoring, "sigchld::undone");
}

#[test]
#[ignore = "a role"]
fn undone() {
    if !plays_as_told() {
        return;
    }
    let is_on = Arc::new(AtomicBool::new(false));
    let (tell, told) = mpsc::channel();
    let fails = Arc::clone(&is_on);
    ask_about(
        &[libc::SYS_epoll_ctl, libc::SYS_kill],
        move |listener, call| {
            if let Some(group) = group_by_number(&call) {
                let _ = kill(group, Signal::SIGKILL);
                let end = Instant::now() + LIMIT;
                while exists(group) && Instant::now() < end {
                    std::thread::yield_now();
                }
                tell.send(group).unwrap();
            }
            // The new server cannot be watched.
            let fd = Path::new("/proc/self/fd").join(call.args[2].to_string());
            let fails = fails.load(Ordering::Relaxed)
                && call.number == libc::SYS_epoll_ctl
                && is_own(&call)
                && fs::read_link(fd).is_ok_and(|to| to.ends_with("anon_inode:[pidfd]"));
            listener.answer(call, fails.then_some(libc::ENOMEM));
        },
    );
    let stage = of_groups();
    drop(stage.launch(&["helper"]));
    is_on.store(true, Ordering::Relaxed);
    let spec = stage.spec(&["helper"]);
    let launched = stage.wait(
        "the launch",
        stage.launcher.launch(&spec, &LaunchContext::new()),
    );
    launched.unwrap_err();
    stage.nobody_is_left();
    assert_eq!(
        told.try_iter().collect::<Vec<_>>(),
        [],
        "signalled, and free"
    );
}

/// A login shell may end by itself a moment before it is killed, and its number be free.
#[test]
fn a_login_shell_is_not_killed_by_a_number_that_may_be_a_strangers() {
    // Other shells end an interactive session that has no terminal.
    let by_bash = |role| {
        let mut command = ignoring(role);
        command.env("SHELL", "/bin/bash").env("HOME", "/nowhere");
        command
    };
    perform_by(by_bash, "sigchld::login");
}

#[test]
#[ignore = "a role"]
fn login() {
    if !plays_as_told() {
        return;
    }
    let (tell, told) = mpsc::channel();
    ask_about(&[libc::SYS_kill], move |listener, call| {
        if let Some(group) = group_by_number(&call) {
            tell.send(group).unwrap();
        }
        listener.answer(call, None);
    });
    let path = mcp_tree::login_path(LIMIT).unwrap();
    assert!(!path.is_empty());
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [], "by their numbers");
}

/// Before Linux 6.9 a group is known by its number alone.
#[test]
fn without_groups_by_pidfd_all_ends_and_no_strangers_number_is_signalled() {
    perform("sigchld::older_kernel");
    perform_by(ignoring, "sigchld::older_kernel");
}

#[test]
#[ignore = "a role"]
fn older_kernel() {
    if !plays_as_told() {
        return;
    }
    let (tell, told) = mpsc::channel();
    ask_about(
        &[libc::SYS_pidfd_send_signal, libc::SYS_kill],
        move |listener, call| {
            let signals = call.number == libc::SYS_pidfd_send_signal;
            if let Some(group) = group_by_number(&call)
                && !exists(group)
            {
                tell.send(group).unwrap();
            }
            listener.answer(call, (signals && call.args[3] != 0).then_some(libc::EINVAL));
        },
    );
    let stage = of_groups();
    for leads in [true, false] {
        let server = stage.launch(&["helper"]);
        stage.wait_for("server");
        stage.wait_for("helper");
        let terminator = server.terminator();
        if !leads {
            let ServerIdentity::Process { pid, .. } = terminator.identity() else {
                panic!("a process");
            };
            kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
            stage.wait("the exit", terminator.exited());
        }
        stage.wait("the order", terminator.force_end()).unwrap();
        stage.nobody_is_left();
        stage.wait("the proof", terminator.gone()).unwrap();
    }
    assert_eq!(
        told.try_iter().collect::<Vec<_>>(),
        [],
        "signalled, and free"
    );
}
