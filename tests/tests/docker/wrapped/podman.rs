//! Podman needs no daemon: labels in the command line, and its own command to
//! clean up with. Its containers' monitors leave every group and session, and
//! become children of the guardian.

use std::process::{Child, Command};

use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};

use mcp_launcher_docker::ReapPolicy;

use super::{drain, policy};
use crate::support::{LIMIT, Rig, archive, eventually, own};

/// A store of its own.
pub(crate) struct Podman(tempfile::TempDir);

impl Podman {
    pub(crate) fn new() -> Self {
        let podman = Self(tempfile::tempdir().unwrap());
        let archive = archive();
        let archive = archive.path().to_str().unwrap();
        podman.run(&["import", archive, "mcp-fixture:test"]);
        podman
    }

    fn globals(&self) -> Vec<String> {
        let at = |name: &str| self.0.path().join(name).display().to_string();
        let flags = ["--root", "--runroot", "--tmpdir"];
        let flags = flags.map(|flag| [flag.to_owned(), at(&flag[2..])]);
        // Podman would prefer crun, which refuses a machine with cgroups of both versions.
        let choices = ["--storage-driver", "vfs", "--runtime", "runc"].map(str::to_owned);
        [flags.concat(), choices.to_vec()].concat()
    }

    /// The arguments that run a stubborn server of the fixture.
    pub(crate) fn run_stubborn(&self, rig: &Rig) -> Vec<String> {
        let address = rig.alive.address();
        let directory = address.trim_start_matches("unix:").trim_end_matches("/s");
        let volume = format!("{directory}:{directory}");
        // Podman's own limits may be above what this machine lets anybody have.
        let limits = [
            "--ulimit",
            "nofile=1024:1024",
            "--ulimit",
            "nproc=1024:1024",
        ];
        let mut args = self.globals();
        args.extend(["run", "-i", "--rm", "--network=none", "-v", &volume].map(str::to_owned));
        args.extend(limits.map(str::to_owned));
        args.extend(["mcp-fixture:test", "/mcp-fixture", "ignore-eof-term"].map(str::to_owned));
        args.extend(["--alive".to_owned(), address]);
        args
    }

    /// What it prints.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = Command::new("podman")
            .args(self.globals())
            .args(args)
            .output()
            .expect("podman: `tests/containers` installs it");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "podman {args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// Podman's service, which speaks Docker's API and its own.
struct Service(Child);

impl Service {
    fn start(podman: &Podman, socket: &str) -> Self {
        let child = Command::new("podman")
            .args(podman.globals())
            .args(["system", "service", "--time", "0", socket])
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a stubborn server by `podman run`, ends it, and expects no process.
/// What is left in the store; `None` when told to skip.
async fn end(
    test: &str,
    wrap: impl FnOnce(Vec<String>) -> (&'static str, Vec<String>),
) -> Option<String> {
    let rig = Rig::new(test)?;
    let podman = Podman::new();
    let args = podman.run_stubborn(&rig);
    let (program, args) = wrap(args);
    let spec = ServerSpec::builder(&rig.server, program).args(args);
    let tracker = rig.tracker();
    let server = tracker
        .launch(&spec.build().unwrap(), &LaunchContext::new())
        .await
        .unwrap();
    let mut server = own(server);
    drain(&mut server);
    rig.alive.accept("server", LIMIT).await.unwrap();
    let report = server.end(&policy()).await.unwrap();
    let alive = rig.alive.alive_at_this_moment(LIMIT).await.unwrap();
    assert!(alive.is_empty(), "{alive:?} {report}");
    println!("{report}");
    let left = podman.run(&["ps", "--all", "--quiet"]);
    podman.run(&["rm", "--all", "--force"]);
    Some(left)
}

#[tokio::test]
async fn podman_run_leaves_nothing() {
    let left = end("podman", |args| ("podman", args)).await;
    assert_eq!(left.unwrap_or_default(), "");
}

/// Its command is not seen, so there is no label: the guardian ends the
/// processes. An entry in Podman's store may stay, of a container that is dead.
#[tokio::test]
async fn podman_behind_a_wrapper_leaves_no_process() {
    let left = end("wrapped-podman", |args| {
        let script = ["-c", "podman \"$@\"; true", "sh"].map(str::to_owned);
        ("sh", [script.to_vec(), args].concat())
    });
    println!("left in the store: {:?}", left.await);
}

/// Its own API, by a service: `DOCKER_HOST` leads to it.
#[tokio::test]
async fn podman_remote_is_labelled_and_gone() {
    let Some(rig) = Rig::new("podman-remote") else {
        return;
    };
    let podman = Podman::new();
    let path = podman.0.path().join("s");
    let socket = format!("unix://{}", path.display());
    let _service = Service::start(&podman, &socket);
    eventually("the service listens", || path.exists()).await;
    let script = r#"
podman --remote --url "$DOCKER_HOST" create --stop-timeout 1 --network none mcp-fixture:test /mcp-fixture ignore-eof-term
podman --remote --url "$DOCKER_HOST" run -d --rm --stop-timeout 1 --network none \
  --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 mcp-fixture:test /mcp-fixture ignore-eof-term
exec sleep 1000"#;
    let spec = ServerSpec::builder(&rig.server, "sh").args(["-c", script]);
    let spec = spec.env("DOCKER_HOST", &socket).build().unwrap();
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let mut server = own(tracker.launch(&spec, &LaunchContext::new()).await.unwrap());
    drain(&mut server);
    let label = format!("label=dev.mcp-lifecycle.server={}", rig.server);
    let ours = ["ps", "--all", "--quiet", "--filter", &label];
    eventually("both are there and labelled", || {
        podman.run(&ours).lines().count() == 2
    })
    .await;
    let report = server.end(&policy()).await;
    let left = podman.run(&["ps", "--all", "--quiet"]);
    podman.run(&["rm", "--all", "--force"]);
    assert_eq!(left, "", "{report:?}");
    assert!(report.is_ok(), "{report:?}");
}
