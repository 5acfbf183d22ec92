//! What a search cannot see is not taken for absent: it stays on record, and
//! is ended by the next one that can.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::{ReapReport, ServerIdentity, ServerLauncher, UnknownRemnant};
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, fork, geteuid, setsid};

use crate::guardian_killed::guardian_of;
use crate::orphans::{end, kill_with_guardians, launched, ledgers, reap, shelf, start_host};
use crate::stage::{self, LIMIT, Stage, has_cgroups, perform, perform_within, plays};

/// Looks, and prints what it found.
#[test]
#[ignore = "a role"]
fn reaper() {
    if plays() {
        println!("\nfound {:?}", reap(&Stage::new()));
    }
}

/// Starts a server and ends it.
#[test]
#[ignore = "a role"]
fn launches() {
    if plays() {
        let stage = Stage::new();
        drop(stage.launch(&["plain"]));
        stage.nobody_is_left();
    }
}

/// Plays a role in a world of its own; what it prints.
fn within(wrapper: &[&str], role: &str) -> String {
    let mut command = stage::role_within(wrapper, role);
    command.env_remove("MCP_TEST_CGROUP").stdin(Stdio::null());
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let passed = output.status.success() && stdout.contains("1 passed");
    assert!(passed, "{role}: {output:?}");
    stdout
}

/// Starts a server and ends it in a world of its own, which leaves `ledger` alone.
///
/// There may be no proof of that end there. Then it stays on record, and seen from
/// yet another PID namespace, in which these tests may run, it stays unknown.
fn launches_within(wrapper: &[&str], ledger: &Path) {
    within(wrapper, "unseen::launches");
    assert!(ledger.exists(), "{wrapper:?}: tidied away");
    for other in fs::read_dir(shelf()).unwrap() {
        let other = other.unwrap().path();
        if other != ledger {
            fs::remove_file(other).unwrap();
        }
    }
    for leaf in stage::leaves() {
        // Its own; the others have somebody inside.
        let _ = fs::remove_dir(leaf);
    }
}

/// A PID namespace of its own, and a user namespace where it takes that.
fn unshare(more: &[&'static str]) -> Vec<&'static str> {
    let mut wrapper = vec!["unshare", "--pid", "--fork"];
    if !geteuid().is_root() {
        wrapper.extend(["--user", "--map-current-user"]);
    }
    wrapper.extend(more);
    wrapper
}

/// The one ledger that there is.
fn ledger() -> PathBuf {
    let mut ledgers = fs::read_dir(shelf()).unwrap();
    let ledger = ledgers.next().unwrap().unwrap().path();
    assert!(ledgers.next().is_none());
    ledger
}

fn alive(stage: &Stage) -> usize {
    let alive = stage.alive.alive_at_this_moment(LIMIT);
    stage.alive.block_on(alive).unwrap().len()
}

fn orphans_of(stage: &Stage, shapes: &[&str], roles: &[&str]) {
    let mut host = start_host(stage, shapes, true);
    launched(&mut host);
    for role in roles {
        stage.wait_for(role);
    }
    end(host);
}

/// Looks from here, where everything is visible.
fn ends_all(stage: &Stage) {
    let report = reap(stage);
    stage.nobody_is_left();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(ledgers(), 0, "settled: {report:?}");
}

#[test]
fn from_another_pid_namespace_nobody_is_taken_for_gone() {
    perform("unseen::other_namespace");
}

#[test]
#[ignore = "a role"]
fn other_namespace() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    orphans_of(&stage, &["ignore-eof-term"; 2], &["server"; 2]);
    let before = alive(&stage);
    assert_eq!(before, 2, "this is about survivors");
    let ledger = ledger();
    for (wrapper, why) in [
        (unshare(&["--mount-proc"]), "another PID namespace (pid:["),
        // The numbers in this /proc are other processes' there.
        (unshare(&[]), "the /proc here is that of another"),
    ] {
        let found = within(&wrapper, "unseen::reaper");
        assert!(found.contains(why), "{wrapper:?}: {found}");
        assert!(found.contains("ended: []"), "{wrapper:?}: {found}");
        launches_within(&wrapper, &ledger);
        assert!(ledger.exists(), "{wrapper:?}: {found}");
        assert_eq!(alive(&stage), before, "{wrapper:?}: {found}");
    }
    ends_all(&stage);
}

#[test]
fn where_a_cgroup_is_not_visible_it_is_not_taken_for_gone() {
    perform("unseen::hidden_cgroup");
}

#[test]
#[ignore = "a role"]
fn hidden_cgroup() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups there is none to hide");
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["double-fork", "wiped-env"], false);
    let servers = launched(&mut host);
    stage.wait_for("daemon");
    stage.wait_for("wiped-env");
    kill_with_guardians(host, &servers);
    // The servers themselves end with their guardians.
    let until = Instant::now() + LIMIT;
    let before = 3; // the daemon, and two connections of the other one
    while alive(&stage) > before {
        assert!(Instant::now() < until);
    }
    let ledger = ledger();
    let hide = "mount -t tmpfs none /sys/fs/cgroup && exec \"$0\" \"$@\"";
    let container = ["--mount-proc", "--mount", "--cgroup", "sh", "-c", hide];
    // A container with the same directory that only starts a server.
    launches_within(&unshare(&container), &ledger);
    let found = within(&unshare(&container), "unseen::reaper");
    assert!(found.contains("not visible here"), "{found}");
    assert!(ledger.exists(), "{found}");
    assert_eq!(alive(&stage), before, "{found}");
    // Who carries a mark is found without the cgroup, the other one is not.
    let found = within(&["unshare", "--mount", "sh", "-c", hide], "unseen::reaper");
    assert!(found.contains("not visible here"), "{found}");
    assert!(ledger.exists(), "{found}");
    assert_eq!(alive(&stage), 2, "{found}");
    ends_all(&stage);
}

#[test]
fn with_any_number_of_free_descriptors_nobody_is_forgotten() {
    perform("unseen::few_descriptors");
}

#[test]
#[ignore = "a role"]
fn few_descriptors() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    limit_descriptors(128);
    for free in 0..16 {
        orphans_of(&stage, &["double-fork"; 3], &["daemon"; 3]);
        let ledger = ledger();
        let mut fillers = every_descriptor();
        fillers.truncate(fillers.len() - free);
        let report = stage.wait("the search", stage.launcher.reap_orphans());
        drop(fillers);
        // It says so when it does not know, and what it does not know stays.
        let complete = report.as_ref().is_ok_and(ReapReport::is_complete);
        let left = alive(&stage);
        let ended = left == 0 && !ledger.exists();
        assert_eq!(complete, ended, "{free}: {left} left: {report:?}");
        assert!(ended || ledger.exists(), "{free}: forgotten: {report:?}");
        ends_all(&stage);
    }
}

#[test]
fn a_group_that_could_not_be_listed_is_looked_at_again() {
    perform("unseen::unlisted_group");
}

#[test]
#[ignore = "a role"]
fn unlisted_group() {
    if !plays() {
        return;
    }
    let mut stage = Stage::new();
    stage.launcher = Arc::new(LocalLauncher::new().isolation(Isolation::ProcessGroup));
    limit_descriptors(128);
    let server = stage.launch(&["helper"]);
    stage.wait_for("server");
    stage.wait_for("helper");
    let ServerIdentity::Process { pid, .. } = server.terminator().identity() else {
        panic!("a process");
    };
    // Not even one that is closed meanwhile can be used again.
    limit_descriptors(3);
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    let gone = stage.wait("the last word", server.terminator().gone());
    gone.expect_err("without descriptors nobody can look");
    let survivors = stage.wait("the survivors", server.terminator().survivors());
    survivors.expect_err("who cannot be listed is not absent");
    limit_descriptors(128);
    stage
        .wait("a new end", server.terminator().force_end())
        .unwrap();
    stage.wait("the proof", server.terminator().gone()).unwrap();
    stage.nobody_is_left();
}

#[test]
fn with_any_number_of_free_descriptors_a_dead_guardian_leads_to_a_proof() {
    perform("unseen::few_descriptors_and_no_guardian");
}

#[test]
#[ignore = "a role"]
fn few_descriptors_and_no_guardian() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups there is no proof");
    }
    let stage = Stage::new();
    limit_descriptors(128);
    for free in 0..8 {
        let server = stage.launch(&["double-fork"]);
        stage.wait_for("daemon");
        let guardian = guardian_of(&server);
        let mut fillers = every_descriptor();
        fillers.truncate(fillers.len() - free);
        kill(guardian, Signal::SIGKILL).unwrap();
        let first = stage.wait("the last word", server.terminator().gone());
        drop(fillers);
        if first.is_err() {
            stage
                .wait("a new end", server.terminator().force_end())
                .unwrap();
            let again = stage.wait("the proof", server.terminator().gone());
            again.unwrap_or_else(|error| panic!("{free}: {error:?}, after {first:?}"));
        }
        stage.nobody_is_left();
    }
}

/// All that are free.
fn every_descriptor() -> Vec<File> {
    let mut fillers = Vec::new();
    while let Ok(filler) = File::open("/dev/null") {
        fillers.push(filler);
    }
    fillers
}

fn limit_descriptors(soft: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
}

#[test]
fn two_thousand_ledgers_do_with_few_descriptors() {
    perform("unseen::many_ledgers");
}

#[test]
#[ignore = "a role"]
fn many_ledgers() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    orphans_of(&stage, &["double-fork"], &["daemon"]);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(19)
        .unwrap();
    for nonce in 0..2_000 {
        let text = format!(
            "mcp-lifecycle 2 4194303 {start} {} {nonce:016x} {namespace} -\n0000000000000001 0 0 -\n",
            boot.trim()
        );
        let mut file = File::options();
        let file = file.write(true).create_new(true).mode(0o600);
        let path = shelf().join(format!("{nonce:016x}.ledger"));
        file.open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }
    limit_descriptors(256);
    ends_all(&stage);
}

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
    perform_as_nobody_else("unseen::unreadable", "");
}

/// The same where `/proc` does not even show it.
#[test]
fn one_that_proc_does_not_show_is_unknown() {
    let hide = "mount -t proc -o hidepid=2 proc /proc &&";
    perform_as_nobody_else("unseen::unreadable", hide);
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
    let mut host = start_host(&stage, &["role=unseen::undumpable", "plain"], true);
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
    stage.nobody_is_left();
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
    perform("unseen::first_thread_ended");
}

#[test]
#[ignore = "a role"]
fn first_thread_ended() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let roles = ["headless", "server"];
    orphans_of(&stage, &["role=unseen::headless"], &roles);
    assert_eq!(alive(&stage), 2);
    ends_all(&stage);
}

#[test]
fn one_that_a_container_engine_keeps_is_left_to_it() {
    perform("unseen::kept_container");
}

#[test]
#[ignore = "a role"]
fn kept_container() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups there is none to be in");
    }
    let stage = Stage::new();
    orphans_of(&stage, &["double-fork"], &["daemon"]);
    // What an engine does with `--env-file` and the environment of a server.
    let own = PathBuf::from(env::var_os("MCP_TEST_CGROUP").unwrap());
    let scope = own.join(format!("docker-{}.scope", "0123456789abcdef".repeat(4)));
    fs::create_dir(&scope).unwrap();
    let daemon = stage.alive.alive().pop().unwrap().pid;
    let environment = fs::read(format!("/proc/{daemon}/environ")).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let mark = environment
        .split('\0')
        .find(|line| line.starts_with("MCP_LIFECYCLE_ID="));
    let script = format!(
        "echo 0 > {}/cgroup.procs && exec \"$0\" \"$@\"",
        scope.display()
    );
    let container = [
        "sh",
        "-c",
        &script,
        "unshare",
        "--pid",
        "--fork",
        "env",
        mark.unwrap(),
    ];
    let mut kept = stage::role_within(&container, "unseen::kept");
    kept.env(stage::OBSERVER, stage.alive.address());
    kept.env_remove("MCP_TEST_CGROUP");
    let mut kept = kept
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    stage.wait_for("kept");
    let report = reap(&stage);
    let holders = stage.alive.alive_at_this_moment(LIMIT);
    let holders = stage.alive.block_on(holders).unwrap();
    let roles: Vec<_> = holders.iter().map(|holder| holder.role.as_str()).collect();
    assert_eq!(roles, ["kept"], "{report:?}");
    assert!(!report.spared.is_empty(), "{report:?}");
    fs::write(scope.join("cgroup.kill"), "1").unwrap();
    kept.wait().unwrap();
    // Its child is gone when nobody is inside any more.
    stage::remove_in_time(&scope);
    ends_all(&stage);
}

/// A process in a container.
#[test]
#[ignore = "a role"]
fn kept() {
    if plays() {
        stage::say_hello("kept");
        loop {
            std::thread::park();
        }
    }
}
