//! Servers that turn against what holds them: behind a hardened launcher, each attack is refused,
//! and nothing is left of them when their host is killed.
//!
//! In a PID namespace of the test's own, where an attack that gets through reaches this test alone.

use std::fs;
use std::process::Child;
use std::sync::Arc;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::{
    Guarantee, LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer, ServerLauncher,
    ServerSpec,
};
use nix::libc;

use crate::gate::ask_about;
use crate::guardian_killed::{guardian_of, parent_of};
use crate::left::acts;
use crate::orphans::{HARDENED, launched, start_host_with};
use crate::stage::{
    Stage, has_cgroups, leaves, perform, perform_alone_and_delegated, plays, remove_in_time,
};

/// Acts of one server each, and the roles of what it starts.
const HOSTILE: [(&str, &[&str]); 5] = [
    ("acts/hostile", &["attacker", "server"]),
    (
        "acts/kill-all/hostile/daemon",
        &["attacker", "daemon", "server"],
    ),
    (
        "acts/no-pdeath/wiped/hostile/setsid",
        &["wiped-env", "attacker", "setsid", "server"],
    ),
    (
        "acts/burst:64/zombies:64/hostile/wiped-orphan",
        &["burst-64", "attacker", "server"],
    ),
    (
        "acts/hostile/daemon/exec:2/close-stdout",
        &["attacker", "daemon", "server"],
    ),
];

/// A hardened launcher, or why this machine has none.
fn launcher(stage: &Stage, isolation: Isolation) -> Option<LocalLauncher> {
    let launcher = LocalLauncher::builder()
        .isolation(isolation)
        .hardened(true)
        .build();
    let found = stage.wait("the probe", launcher.probe());
    assert_eq!(launcher.semantics().containment, found);
    if let Some(why) = mcp_guardian::hardened::refusal(true, false) {
        let error = launch_plain(stage, &launcher).unwrap_err();
        let is_refused = matches!(error.kind(), LaunchErrorKind::Containment(_));
        assert!(is_refused && error.to_string().contains("PID namespace"));
        println!("NOT TESTED: {why}");
        return None;
    }
    found.require(Guarantee::Hardened).unwrap();
    let is_in_cgroup = found.mechanism == "guardian and cgroup";
    assert!(
        is_in_cgroup || !has_cgroups() || isolation != Isolation::Guardian,
        "{found}"
    );
    assert!(found.to_string().starts_with("hardened "), "{found}");
    Some(launcher)
}

#[test]
fn without_landlock_a_hardened_launch_is_refused() {
    perform("hardened::refused");
}

#[test]
#[ignore = "a role"]
fn refused() {
    if !plays() {
        return;
    }
    // As a kernel without it, or a sandbox.
    ask_about(&[libc::SYS_landlock_create_ruleset], |listener, call| {
        listener.answer(call, Some(libc::ENOSYS));
    });
    let stage = Stage::new();
    for isolation in [Isolation::Guardian, Isolation::PidNamespace] {
        assert!(launcher(&stage, isolation).is_none());
        writes_only_below_in(&stage, isolation, false);
    }
    stage.nobody_is_left();
}

fn launch_plain(stage: &Stage, launcher: &LocalLauncher) -> Result<LaunchedServer, LaunchError> {
    let (spec, context) = (stage.spec(&["plain"]), LaunchContext::new());
    stage.wait("the launch", launcher.launch(&spec, &context))
}

fn is_unharmed(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    ["S (sleeping)", "R (running)", "D (disk sleep)"]
        .iter()
        .any(|state| status.contains(state))
        && status.contains("TracerPid:\t0\n")
}

#[test]
fn nothing_is_left_of_hostile_servers_when_their_host_is_killed() {
    perform_alone_and_delegated("hardened::host_killed");
}

#[test]
#[ignore = "a role"]
fn host_killed() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    if launcher(&stage, Isolation::Guardian).is_none() {
        return;
    }
    for (shape, roles) in HOSTILE {
        let more = [(HARDENED, "1".to_owned())];
        let mut host = start_host_with(&stage, &["plain", shape], false, &more);
        let servers = launched(&mut host);
        stage.wait_for("server");
        for role in roles {
            stage.wait_for(role);
        }
        unharmed(&mut host, &servers);
        host.kill().unwrap();
        host.wait().unwrap();
        stage.nobody_is_left();
    }
    // Each guardian removes the cgroup a moment after the proof.
    leaves().iter().for_each(|leaf| remove_in_time(leaf));
}

fn unharmed(host: &mut Child, servers: &[u32]) {
    assert_eq!(host.try_wait().unwrap(), None, "the host");
    assert!(is_unharmed(host.id()), "the host");
    for server in servers {
        let guardian = parent_of(*server).as_raw().cast_unsigned();
        assert!(is_unharmed(guardian), "the guardian of {server}");
    }
}

#[test]
fn the_end_of_a_hostile_server_is_proven() {
    perform_alone_and_delegated("hardened::proven");
}

#[test]
#[ignore = "a role"]
fn proven() {
    if !plays() {
        return;
    }
    let mut stage = Stage::new();
    for isolation in [Isolation::Guardian, Isolation::PidNamespace] {
        let Some(launcher) = launcher(&stage, isolation) else {
            return;
        };
        let beside = LocalLauncher::new();
        stage.launcher = Arc::new(launcher);
        for (shape, roles) in HOSTILE {
            let neighbour = launch_plain(&stage, &beside).unwrap();
            stage.wait_for("server");
            let does: Vec<_> = shape.split('/').skip(1).collect();
            let server = stage.launch(&acts(&does));
            for role in roles {
                stage.wait_for(role);
            }
            let guardian = guardian_of(&server).as_raw().cast_unsigned();
            assert!(is_unharmed(guardian), "{shape}");
            let terminator = server.terminator().clone();
            stage.wait("the order", terminator.force_end()).unwrap();
            let gone = stage.wait("the proof", terminator.gone()).unwrap();
            let alive = stage.alive.alive_at_this_moment(crate::stage::LIMIT);
            let alive = stage.alive.block_on(alive).unwrap();
            assert_eq!(alive.len(), 1, "{shape}: {alive:?} in spite of {gone:?}");
            drop((server, neighbour));
            stage.nobody_is_left();
        }
    }
}

#[test]
fn an_ordinary_server_works_when_it_is_hardened() {
    perform("hardened::works");
}

#[test]
#[ignore = "a role"]
fn works() {
    if !plays() {
        return;
    }
    let mut stage = Stage::new();
    let Some(launcher) = launcher(&stage, Isolation::Guardian) else {
        return;
    };
    stage.launcher = Arc::new(launcher);
    // It signals its own: a helper that it has started.
    let server = stage.launch(&["sh-wrapper"]);
    stage.wait_for("server");
    assert_eq!(server.terminator().semantics(), stage.launcher.semantics());
    let parts = server.into_parts();
    drop(parts.stdin);
    stage.wait("the proof", parts.terminator.gone()).unwrap();
    stage.nobody_is_left();
    let group = LocalLauncher::builder()
        .isolation(Isolation::ProcessGroup)
        .hardened(true)
        .build();
    let limited = LocalLauncher::builder()
        .isolation(Isolation::ProcessGroup)
        .writable(["/"])
        .build();
    for launcher in [group, limited] {
        let error = launch_plain(&stage, &launcher).unwrap_err();
        let is_refused = matches!(error.kind(), LaunchErrorKind::Containment(_));
        assert!(is_refused, "{error}");
    }
}

/// Tries to write below `out`, itself and by descendants, and writes below `in`.
const WRITES: &str = "echo >in/mine; mkdir in/made && mv in/mine in/made && rm -r in/made || exit 1
echo >out/new; echo >>out/file; mv out/file in; ln out/file in/hard; rm out/file; mkdir out/made
ln -s ../out in/way; echo >in/way/new; echo >in/way/file
setsid sh -c '(echo >out/new; echo >>out/file) & wait'
cat out/file >in/read; echo >/dev/null && echo done >in/done";

#[test]
fn a_server_of_a_launcher_writes_only_what_it_was_given() {
    perform_alone_and_delegated("hardened::writes");
}

#[test]
#[ignore = "a role"]
fn writes() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    for (isolation, hardened) in [
        (Isolation::Guardian, false),
        (Isolation::Guardian, true),
        (Isolation::PidNamespace, false),
        (Isolation::PidNamespace, true),
    ] {
        writes_only_below_in(&stage, isolation, hardened);
    }
}

fn writes_only_below_in(stage: &Stage, isolation: Isolation, hardened: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["in", "out"] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::write(path("out/file"), "old").unwrap();
    let launcher = LocalLauncher::builder()
        .isolation(isolation)
        .hardened(hardened)
        .writable([path("in")])
        .build();
    let found = stage.wait("the probe", launcher.probe());
    assert_eq!(launcher.semantics().containment, found);
    let spec = ServerSpec::builder("writes", "sh").args(["-c", WRITES]);
    let spec = spec.cwd(directory.path()).build().unwrap();
    let launched = stage.wait("the launch", launcher.launch(&spec, &LaunchContext::new()));
    if let Some(why) = mcp_guardian::hardened::refusal(hardened, true) {
        let error = launched.unwrap_err();
        let is_refused = matches!(error.kind(), LaunchErrorKind::Containment(_));
        assert!(is_refused && error.to_string().contains(&why), "{error}");
        return println!("NOT TESTED: {why}");
    }
    found.require(Guarantee::LimitedWrites).unwrap();
    assert_eq!(found.require(Guarantee::Hardened).is_ok(), hardened);
    assert!(found.to_string().contains("limited writes"), "{found}");
    let parts = launched.unwrap().into_parts();
    drop(parts.stdin);
    stage.wait("the proof", parts.terminator.gone()).unwrap();
    assert_eq!(fs::read_to_string(path("in/done")).unwrap(), "done\n");
    assert_eq!(fs::read_to_string(path("in/read")).unwrap(), "old");
    assert_eq!(fs::read_to_string(path("out/file")).unwrap(), "old");
    assert_eq!(fs::read_dir(path("out")).unwrap().count(), 1, "{found}");
    assert_eq!(fs::read_dir(path("in")).unwrap().count(), 3, "{found}");
    let launcher = LocalLauncher::builder().writable([path("missing")]).build();
    let launched = stage.wait("the launch", launcher.launch(&spec, &LaunchContext::new()));
    let error = launched.unwrap_err().to_string();
    assert!(error.contains("missing`"), "{error}");
}

#[test]
fn an_old_kernel_limits_writes_or_refuses_to() {
    perform("hardened::third_version");
    perform("hardened::second_version");
}

#[test]
#[ignore = "a role"]
fn third_version() {
    if plays() && mcp_guardian::hardened::refusal(false, true).is_none() {
        answers_version(4);
        let stage = Stage::new();
        writes_only_below_in(&stage, Isolation::Guardian, false);
        writes_only_below_in(&stage, Isolation::Guardian, true);
    }
}

#[test]
#[ignore = "a role"]
fn second_version() {
    if plays() {
        answers_version(2);
        let why = mcp_guardian::hardened::refusal(false, true).unwrap();
        assert!(why.contains("Linux 6.2"), "{why}");
        writes_only_below_in(&Stage::new(), Isolation::Guardian, false);
    }
}

/// Has the kernel say that its Landlock has this version.
fn answers_version(version: i32) {
    ask_about(
        &[libc::SYS_landlock_create_ruleset],
        move |listener, call| {
            // Rules have attributes. An error is a negative result.
            listener.answer(call, (call.args[0] == 0).then_some(-version));
        },
    );
}
