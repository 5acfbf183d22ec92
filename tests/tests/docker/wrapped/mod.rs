//! Containers behind wrappers: the shapes of the field, each with a server that
//! ignores the end of its input and SIGTERM.

mod access;
mod build;
mod clients;
mod host_death;
pub(crate) mod podman;
mod policy;
mod proxy;
mod random_kills;
mod remote;
mod shapes;
mod strangers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_launcher_docker::ContainerTracker;
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};
use mcp_lifecycle_core::terminate::TerminationPolicy;

use crate::support::{LIMIT, Owned, Rig, eventually, own, without_haste};

pub(crate) fn policy() -> TerminationPolicy {
    without_haste()
        .eof_grace(Duration::from_millis(200))
        .term_grace(Duration::from_millis(300))
}

impl Rig {
    pub(crate) fn tracker(&self) -> ContainerTracker {
        ContainerTracker::new(Arc::new(LocalLauncher::new())).ledger_directory(self.ledgers.path())
    }

    /// `RUN` are the options of `docker run`, `PAYLOAD` is what comes after.
    pub(crate) fn wrapped(&self, program: &str, args: &[&str]) -> ServerSpec {
        let address = self.alive.address();
        let directory = address.trim_start_matches("unix:").trim_end_matches("/s");
        let run = format!("--network none --init -v {directory}:{directory}");
        let command = format!("/mcp-fixture ignore-eof-term --alive {address}");
        let image = "mcp-fixture:test";
        let socket = self.engine.host.trim_start_matches("unix://");
        let labels = format!("test={}", self.server);
        ServerSpec::builder(&self.server, program)
            .args(args.iter().copied())
            .env("DOCKER_HOST", &self.engine.host)
            .env("SOCKET", socket)
            .env("RUN", format!("{run} --label {labels}"))
            .env("PAYLOAD", format!("{image} {command}"))
            .env("COMMAND", command)
            .env("DIRECTORY", directory)
            .env("TEST", &self.server)
            .build()
            .unwrap()
    }

    /// Runs the script behind a tracker, until so many servers of the fixture speak.
    async fn script(&self, script: &str, speakers: usize) -> Owned {
        let spec = self.wrapped("sh", &["-c", script]);
        let launch = self.tracker().launch(&spec, &LaunchContext::new()).await;
        let mut server = own(launch.unwrap());
        drain(&mut server);
        for _ in 0..speakers {
            self.alive.accept("server", LIMIT).await.unwrap();
        }
        server
    }

    /// Found by a label of the test's own: also what was not tracked.
    pub(crate) fn started(&self) -> Vec<String> {
        self.engine.by_label(&format!("test={}", self.server))
    }
}

/// Launches a shape, waits until its containers are there, ends it, and
/// expects to find nothing.
async fn ends_clean(rig: &Rig, tracker: &impl ServerLauncher, spec: &ServerSpec, shape: Shape) {
    assert_tools(spec);
    let mut server = own(tracker.launch(spec, &LaunchContext::new()).await.unwrap());
    drain(&mut server);
    match shape {
        Shape::Speaks => drop(rig.alive.accept("server", LIMIT).await.unwrap()),
        Shape::Silent(n) => eventually("it is there", || rig.started().len() == n).await,
    }
    let (mut ours, mut started) = (rig.containers(), rig.started());
    ours.sort();
    started.sort();
    assert_eq!(ours, started, "labelled, and there");
    let begun = Instant::now();
    let report = server.end(&policy()).await.unwrap();
    let took = begun.elapsed();
    let alive = rig.alive.alive_at_this_moment(LIMIT).await.unwrap();
    assert!(
        alive.is_empty(),
        "alive after the proof: {alive:?} {report}"
    );
    let left = rig.started();
    for id in &left {
        rig.engine.docker(&["rm", "-f", id]);
    }
    assert!(left.is_empty(), "left: {left:?} {report}");
    println!(
        "{}: gone in {took:.2?}, swept {}",
        rig.server, report.gone.swept_count
    );
}

/// A shape of the field needs the tools of the field: `tests/run containers`
/// installs them.
fn assert_tools(spec: &ServerSpec) {
    const TOOLS: &[(&str, &[&str])] = &[
        ("npm", &["npm", "--version"]),
        ("docker-compose", &["docker-compose", "version"]),
        ("import docker", &["python3", "-c", "import docker"]),
        ("curl", &["curl", "--version"]),
    ];
    let mut words = vec![spec.program().unwrap_or_default().to_string_lossy()];
    words.extend(spec.args().iter().map(|arg| arg.to_string_lossy()));
    let text = words.join(" ");
    let needed = TOOLS.iter().filter(|(name, _)| text.contains(name));
    for (_, command) in needed {
        let output = std::process::Command::new(command[0])
            .args(&command[1..])
            .output();
        let works = output.is_ok_and(|output| output.status.success());
        assert!(works, "missing here: {}", command.join(" "));
    }
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    /// A server of the fixture says hello.
    Speaks,
    /// So many containers exist.
    Silent(usize),
}

pub(crate) fn drain(server: &mut Owned) {
    let empty = || Box::new(tokio::io::empty());
    let mut stdout = std::mem::replace(&mut server.stdout, empty());
    let mut stderr = server.stderr.take().unwrap();
    tokio::spawn(async move { tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await });
    tokio::spawn(async move {
        let mut text = Vec::new();
        let _ = tokio::io::copy(&mut stderr, &mut text).await;
        eprintln!("stderr: {}", String::from_utf8_lossy(&text));
    });
}
