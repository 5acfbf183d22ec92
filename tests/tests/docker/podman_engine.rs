//! Podman's service as the engine: what the Docker launcher promises holds there too.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mcp_launcher_docker::{ContainerOptions, Init};
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use mcp_lifecycle_core::terminate::TerminationPolicy;

use crate::support::{Engine, Host, LIMIT, Rig, eventually, is_host, own};

/// `podman system service` with a store and a socket of its own.
struct Service {
    child: Child,
    engine: Engine,
    directory: tempfile::TempDir,
}

impl Service {
    /// `None` when told to skip.
    fn start() -> Option<Self> {
        if std::env::var("MCP_DOCKER_TESTS").is_ok_and(|value| value == "skip") {
            eprintln!("skipped: MCP_DOCKER_TESTS=skip");
            return None;
        }
        let directory = tempfile::Builder::new()
            .prefix("podman-")
            .tempdir_in("/tmp")
            .unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let log = std::fs::File::create(at("log")).unwrap();
        let host = format!("unix://{}", at("s"));
        let child = Command::new("podman")
            .args(["--root", &at("root"), "--runroot", &at("runroot")])
            .args(["--tmpdir", &at("tmpdir"), "--storage-driver", "vfs"])
            // Podman would prefer crun, which refuses a machine with cgroups of both versions.
            .args(["--runtime", "runc", "--cgroup-manager", "cgroupfs"])
            .args(["system", "service", "--time", "0", &host])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("podman: `tests/containers` installs it");
        let engine = Engine { host };
        let deadline = Instant::now() + LIMIT;
        while !engine.answers() {
            let log = std::fs::read_to_string(at("log"));
            assert!(Instant::now() < deadline, "podman does not answer: {log:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(Self {
            child,
            engine,
            directory,
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let ids = self.engine.command(&["ps", "-aq"]).output();
        let ids = ids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        for id in ids.unwrap_or_default().lines() {
            let _ = self.engine.command(&["rm", "-f", id]).output();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // It mounts its store onto itself.
        let root = self.directory.path().join("root");
        let unmount = || Command::new("umount").arg(&root).output();
        while unmount().is_ok_and(|output| output.status.success()) {}
    }
}

/// Its own init is another package's; limits above the machine's are refused.
fn options(rig: &Rig) -> ContainerOptions {
    let limit = |name: &str| serde_json::json!({"Name": name, "Soft": 1024, "Hard": 1024});
    let limits = [limit("nofile"), limit("nproc")];
    let limits = serde_json::json!({"HostConfig": {"Ulimits": limits}});
    rig.options().init(Init::None).create_body(limits)
}

#[tokio::test]
async fn servers_end_with_proof_on_podman() {
    let Some(service) = Service::start() else {
        return;
    };
    let rig = Rig::on(service.engine.clone(), "podman-engine");
    let policy = TerminationPolicy::default()
        .eof_grace(Duration::from_millis(500))
        .term_grace(Duration::from_millis(500))
        .kill_confirmation(Duration::from_secs(25));
    for (fixture, init) in [
        ("plain", Init::None),
        ("ignore-eof-term", Init::None),
        ("ignore-eof-term", Init::Supervised),
    ] {
        let options = options(&rig).init(init);
        let (launcher, spec) = (rig.launcher(), rig.spec_with(&options, &[fixture]));
        let server = own(rig.launch_by(&launcher, &spec).await);
        let report = server.end(&policy).await.unwrap();
        let alive = rig.alive.alive_at_this_moment(LIMIT).await.unwrap();
        assert!(alive.is_empty(), "{fixture}: {alive:?} {report}");
        assert!(rig.containers().is_empty(), "{fixture}: {report}");
    }
}

#[tokio::test]
async fn orphans_are_ended_on_podman() {
    const ME: &str = "podman_engine::orphans_are_ended_on_podman";
    if let Some(job) = is_host() {
        let [host, ledgers, server] = job.split('|').collect::<Vec<_>>()[..] else {
            panic!("{job}");
        };
        let engine = Engine {
            host: host.to_owned(),
        };
        let rig = Rig::on(engine, "podman-host");
        let launcher = mcp_launcher_docker::DockerLauncher::builder()
            .endpoint(rig.launcher().endpoint().clone())
            .ledger_directory(ledgers)
            .last_will(false)
            .build()
            .unwrap();
        let spec = mcp_lifecycle_core::launch::ServerSpec::builder(server, "/mcp-fixture");
        let spec = options(&rig).apply(spec.arg("ignore-eof-term"));
        let _server = launcher
            .launch(&spec.build().unwrap(), &LaunchContext::new())
            .await
            .unwrap();
        println!("launched");
        return std::future::pending().await;
    }
    let Some(service) = Service::start() else {
        return;
    };
    let rig = Rig::on(service.engine.clone(), "podman-orphans");
    let job = format!(
        "{}|{}|{}",
        rig.engine.host,
        rig.ledgers.path().display(),
        rig.server
    );
    let mut host = Host::start(ME, &job);
    host.wait_for("launched");
    host.kill();
    assert_eq!(rig.containers().len(), 1);
    let report = rig.launcher().reap_orphans().await.unwrap();
    assert_eq!(report.ended.len(), 1, "{report:?}");
    eventually("none is left", || rig.containers().is_empty()).await;
}
