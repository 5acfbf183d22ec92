//! Podman, which has no daemon to put a proxy in front of.

use super::host::{Host, signal};
use super::nothing_is_left;
use crate::support::{LIMIT, Rig};
use crate::wrapped::podman::Podman;
use nix::sys::signal::Signal;

/// A stubborn server by `podman run`, behind `wrap`, ended in this way. What is left in Podman's store.
async fn end(
    test: &str,
    wrap: impl FnOnce(Vec<String>) -> (&'static str, Vec<String>),
    kill: impl FnOnce(&mut Host),
) -> Option<String> {
    let rig = Rig::new(test)?;
    let podman = Podman::new();
    let (program, args) = wrap(podman.run_stubborn(&rig));
    let spec = mcp_lifecycle_core::launch::ServerSpec::builder("podman", program).args(args);
    let mut host = Host::start(&rig, &["--grace", "300ms"], &spec.build().unwrap()).await;
    rig.alive.accept("server", LIMIT).await.unwrap();
    kill(&mut host);
    host.ended().await;
    nothing_is_left(&rig, &host).await;
    let left = podman.run(&["ps", "--all", "--quiet"]);
    podman.run(&["rm", "--all", "--force"]);
    Some(left)
}

fn everything(host: &mut Host) {
    let guardian = host.guardian();
    for pid in [host.pid(), host.shim, guardian] {
        signal(pid, Signal::SIGKILL);
    }
}

#[tokio::test]
async fn podman_run_leaves_nothing() {
    for (test, kill) in [
        ("podman-eof", Host::close as fn(&mut Host)),
        ("podman-all", everything),
    ] {
        let left = end(test, |args| ("podman", args), kill).await;
        assert_eq!(left.unwrap_or_default(), "", "{test}");
    }
}

/// Its labels are not in the command line: the processes are ended with the server's. An entry of a dead container stays in its store.
#[tokio::test]
async fn podman_behind_a_shell_leaves_no_process() {
    let wrap = |args| {
        let script = ["-c", "podman \"$@\"; true", "sh"].map(str::to_owned);
        ("sh", [script.to_vec(), args].concat())
    };
    let left = end("podman-shell", wrap, Host::close).await;
    println!("left in the store: {left:?}");
}
