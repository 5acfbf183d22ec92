//! A cgroup for each server, and none that is left behind.

use std::fs;
use std::pin::Pin;
use std::task::Poll;

use mcp_lifecycle_core::launch::{LaunchContext, ServerIdentity, ServerLauncher, ServerSpec};

use crate::stage::{LIMIT, Stage, has_cgroups, leaves, perform, plays};

#[test]
fn each_server_is_in_a_cgroup_of_its_own() {
    perform("leaves::own_cgroups");
}

#[test]
#[ignore = "a role"]
fn own_cgroups() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let before = stage.launcher.semantics().containment;
    assert_eq!(
        before.mechanism, "not known yet",
        "nothing is started to answer"
    );
    let containment = stage.wait(
        "the probe",
        mcp_launcher_local::LocalLauncher::new().probe(),
    );
    assert_eq!(stage.launcher.semantics().containment, containment);
    assert_eq!(
        containment.fallback.is_none(),
        has_cgroups(),
        "{containment}"
    );
    assert!(leaves().is_empty(), "the probe leaves nothing");
    let one = stage.launch(&["ignore-eof-term"]);
    let other = stage.launch(&["double-fork"]);
    let got = one.terminator().semantics().containment;
    assert_eq!(got, containment, "what was promised is what there is");
    for role in ["server", "server", "daemon"] {
        stage.wait_for(role);
    }
    if has_cgroups() {
        assert_eq!(leaves().len(), 2);
        assert_ne!(cgroup_of(&one), cgroup_of(&other));
        assert!(cgroup_of(&one).contains("/mcp-"), "{}", cgroup_of(&one));
    }
    for server in [one, other] {
        let terminator = server.terminator().clone();
        drop(server);
        stage.wait("the proof", terminator.gone()).unwrap();
    }
    assert!(leaves().is_empty(), "gone is gone: {:?}", leaves());
    stage.nobody_is_left();
}

fn cgroup_of(server: &mcp_lifecycle_core::launch::LaunchedServer) -> String {
    let ServerIdentity::Process { pid, .. } = server.terminator().identity() else {
        panic!("a process");
    };
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let line = text.lines().find(|line| line.starts_with("0::")).unwrap();
    line.to_owned()
}

#[test]
fn a_launch_that_fails_leaves_no_cgroup() {
    perform("leaves::failed_launches");
}

#[test]
#[ignore = "a role"]
fn failed_launches() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("no-interpreter");
    fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    let mut mode = fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&program, mode).unwrap();
    for _ in 0..20 {
        let spec = ServerSpec::builder("none", &program).build().unwrap();
        let launched = stage.wait(
            "the launch",
            stage.launcher.launch(&spec, &LaunchContext::new()),
        );
        assert!(launched.is_err());
        assert!(
            leaves().is_empty(),
            "an error leaves nothing: {:?}",
            leaves()
        );
    }
    // Dropped at every await, the launch is undone by somebody else; what it
    // leaves is told by the last proof, and by the test's own cgroup.
    for polls in 1.. {
        let spec = stage.spec(&["plain"]);
        let context = LaunchContext::new();
        let mut launch = stage.launcher.launch(&spec, &context);
        let mut left = polls;
        let done = stage.wait(
            "a poll",
            std::future::poll_fn(|cx| {
                let poll = Pin::as_mut(&mut launch).poll(cx);
                left -= 1;
                match poll {
                    Poll::Ready(launched) => Poll::Ready(Some(launched)),
                    Poll::Pending if left == 0 => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            }),
        );
        drop(launch);
        if let Some(launched) = done {
            let terminator = launched.unwrap().terminator().clone();
            stage.wait("the proof", terminator.gone()).unwrap();
            assert!(polls > 1, "there is an await in a launch");
            break;
        }
    }
    stage.nobody_is_left();
    wait_for_no_leaf();
}

/// Waits until no leaf is left: that of a dropped launch is removed by a thread that tells nobody.
fn wait_for_no_leaf() {
    let end = std::time::Instant::now() + LIMIT;
    while !leaves().is_empty() {
        assert!(std::time::Instant::now() < end, "left: {:?}", leaves());
        std::thread::yield_now();
    }
}

#[test]
fn cgroups_that_a_server_makes_inside_go_with_it() {
    perform("leaves::nested");
}

#[test]
#[ignore = "a role"]
fn nested() {
    if !plays() || !has_cgroups() {
        return;
    }
    let stage = Stage::new();
    let server = stage.launch(&["ignore-eof-term"]);
    stage.wait_for("server");
    let leaf = leaves().pop().unwrap();
    fs::create_dir_all(leaf.join("a/b")).unwrap();
    fs::create_dir(leaf.join("c")).unwrap();
    let terminator = server.terminator().clone();
    drop(server);
    stage.wait("the proof", terminator.gone()).unwrap();
    assert!(leaves().is_empty(), "{:?}", leaves());
}

#[test]
fn a_server_without_a_guardian_has_no_cgroup() {
    let launcher = mcp_launcher_local::LocalLauncher::builder()
        .isolation(mcp_launcher_local::Isolation::ProcessGroup)
        .build();
    assert_eq!(launcher.semantics().containment.mechanism, "process group");
}

#[test]
fn a_server_costs_its_host_five_descriptors() {
    perform("leaves::descriptors");
}

#[test]
#[ignore = "a role"]
fn descriptors() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let spec = ServerSpec::builder("cat", "cat").build().unwrap();
    let launch = || {
        stage
            .wait(
                "the launch",
                stage.launcher.launch(&spec, &LaunchContext::new()),
            )
            .unwrap()
    };
    let held = || mcp_lifecycle_conformance::census::Census::take().fd_count();
    // The first one brings what all share: a thread, a ledger, the image.
    let first = launch();
    let before = held();
    let second = launch();
    // Three streams, the guardian's socket, the guardian.
    assert_eq!(held() - before, 5);
    for server in [first, second] {
        let terminator = server.terminator().clone();
        drop(server);
        stage.wait("the proof", terminator.gone()).unwrap();
    }
}
