//! Servers that cannot be looked at: what hides itself, what `/proc` hides, what has
//! no first thread.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{ErrorChain, Evidence, UnknownRemnant};
use nix::sys::prctl::set_dumpable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, fork, geteuid, setsid};

use crate::ended::wait_for_end;
use crate::orphans::{end, launched, ledgers, reap, start_host, start_host_with};
use crate::stage::{self, LIMIT, Stage, has_cgroups, leaves, perform, perform_within, plays};
use crate::unseen::{alive, ends_all, orphans_of};

/// A server that hides its environment from those of its own user.
#[test]
#[ignore = "a role"]
fn undumpable() {
    if plays() {
        set_dumpable(false).unwrap();
        stage::say_hello("undumpable");
        loop {
            std::thread::park();
        }
    }
}

#[test]
fn one_that_does_not_let_itself_be_read_is_unknown() {
    perform_as_nobody_else("hidden::unreadable", "");
}

/// The same where `/proc` does not even show it.
#[test]
fn one_that_proc_does_not_show_is_unknown() {
    let hide = "mount -t proc -o hidepid=2 proc /proc &&";
    perform_as_nobody_else("hidden::unreadable", hide);
}

/// As a user who has nothing else that could be in doubt.
fn perform_as_nobody_else(role: &str, first: &str) {
    if !geteuid().is_root() {
        return println!("NOT TESTED: becoming another user takes root");
    }
    let user = stage::nobody_else();
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    std::os::unix::fs::chown(directory.path(), Some(user), Some(user)).unwrap();
    let state = format!("{}={}/state", stage::STATE, directory.path().display());
    let script = format!(
        "{first} exec setpriv --reuid={user} --regid={user} --clear-groups env {state} \"$0\" \"$@\""
    );
    perform_within(role, &["unshare", "--mount", "sh", "-c", &script], None);
}

#[test]
#[ignore = "a role"]
fn unreadable() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["role=hidden::undumpable", "plain"], true);
    launched(&mut host);
    let server = stage.alive.accept("undumpable", LIMIT);
    let server = stage.alive.block_on(server).unwrap();
    stage.wait_for("server");
    end(host);
    for _ in 0..2 {
        let report = reap(&stage);
        let is_it = |unknown: &UnknownRemnant| unknown.what.id == server.pid().to_string();
        assert!(report.unknown.iter().any(is_it), "{report:?}");
        assert_eq!(ledgers(), 1, "it stays on record: {report:?}");
        assert_eq!(alive(&stage), 1);
    }
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    kill(pid, Signal::SIGKILL).unwrap();
    // One that has closed everything and has not ended yet is as unknown as before.
    wait_for_end(server.pid());
    ends_all(&stage);
}

/// A server with a child whose first thread ends while another one lives on.
#[test]
#[ignore = "a role"]
fn headless() {
    if !plays() {
        return;
    }
    // SAFETY: the child uses what the C library makes fit for use after a fork,
    // and nothing that another thread of this process may have locked.
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        setsid().unwrap();
        stage::say_hello("headless");
        // SAFETY: ends this thread alone (exit(2)); nothing on its stack is used
        // by the other one.
        unsafe { nix::libc::syscall(nix::libc::SYS_exit, 0) };
    }
    stage::say_hello("server");
    loop {
        std::thread::park();
    }
}

#[test]
fn one_whose_first_thread_has_ended_is_found() {
    perform("hidden::first_thread_ended");
}

#[test]
#[ignore = "a role"]
fn first_thread_ended() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let roles = ["headless", "server"];
    orphans_of(&stage, &["role=hidden::headless"], &roles);
    assert_eq!(alive(&stage), 2);
    ends_all(&stage);
}

#[test]
fn one_that_is_called_like_a_guardian_is_ended_like_any_other() {
    perform("hidden::called_like_a_guardian");
}

#[test]
#[ignore = "a role"]
fn called_like_a_guardian() {
    if !plays() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let stage = Stage::new();
    for name in ["my-mcp-guardian-tool", ".mcp-guardian-7-0"] {
        let program = directory.path().join(name);
        fs::copy(stage::fixture_program(), &program).unwrap();
        let fixture = ("MCP_TEST_FIXTURE", program.to_str().unwrap().to_owned());
        let mut host = start_host_with(&stage, &["double-fork"], true, &[fixture]);
        launched(&mut host);
        stage.wait_for("daemon");
        // That of a guardian has no name any more.
        fs::remove_file(&program).unwrap();
        end(host);
        assert!(alive(&stage) > 0, "this is about survivors");
        let begun = Instant::now();
        ends_all(&stage);
        // As long as a guardian would be.
        let waited = Duration::from_secs(10);
        assert!(begun.elapsed() < waited, "{name} was waited for");
    }
}

#[test]
fn where_proc_shows_only_processes_there_are_cgroups_all_the_same() {
    perform("hidden::processes_only");
}

#[test]
#[ignore = "a role"]
fn processes_only() {
    if !plays() || !has_cgroups() || !geteuid().is_root() {
        return println!("NOT TESTED: mounting takes root, and this is about cgroups");
    }
    let hide = "mount -t proc -o subset=pid proc /proc && exec \"$0\" \"$@\"";
    let wrapper = ["unshare", "--mount", "sh", "-c", hide];
    let mut command = stage::role_within(&wrapper, "hidden::without_boot_id");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{output:?}"
    );
}

#[test]
#[ignore = "a role"]
fn without_boot_id() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let server = stage.launch(&["double-fork", "--ignore-eof", "--ignore-term"]);
    for role in ["server", "daemon"] {
        stage.wait_for(role);
    }
    assert_eq!(leaves().len(), 1);
    let containment = server.terminator().semantics().containment;
    assert_eq!(containment.mechanism, "guardian and cgroup");
    let why = containment.fallback.unwrap();
    assert!(why.contains("subset=pid"), "{why}");
    let terminator = server.terminator().clone();
    stage.wait("the order", terminator.force_end()).unwrap();
    let gone = stage.wait("the proof", terminator.gone()).unwrap();
    assert_eq!(gone.evidence, [Evidence::Reaped, Evidence::CgroupEmpty]);
    stage.nobody_is_left();
    assert!(leaves().is_empty(), "{:?}", leaves());
    let refused = stage.wait("the search", stage.launcher.reap_orphans());
    let why = ErrorChain(&refused.unwrap_err()).to_string();
    assert!(why.contains("subset=pid"), "{why}");
}
