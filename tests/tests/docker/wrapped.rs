//! Containers behind wrappers: the shapes of the field, each with a server that
//! ignores the end of its input and SIGTERM.

use std::time::{Duration, Instant};

use mcp_launcher_docker::{ContainerTracker, ReapPolicy};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::{ServerLauncher, ServerSpec, TerminationPolicy, TerminationReport};

use crate::support::{Host, LIMIT, Owned, Rig, eventually, is_host, own, pause};

fn policy() -> TerminationPolicy {
    TerminationPolicy::default()
        .eof_grace(Duration::from_millis(200))
        .term_grace(Duration::from_millis(300))
        .kill_confirmation(Duration::from_secs(8))
}

impl Rig {
    fn tracker(&self) -> ContainerTracker<LocalLauncher> {
        ContainerTracker::new(LocalLauncher::new()).lease_directory(self.leases.path())
    }

    /// `RUN` are the options of `docker run`, `PAYLOAD` is what comes after.
    fn wrapped(&self, program: &str, args: &[&str]) -> ServerSpec {
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

    /// Found by a label of the test's own: also what was not tracked.
    fn started(&self) -> Vec<String> {
        self.engine.by_label(&format!("test={}", self.server))
    }
}

/// Launches a shape, waits until its containers are there, ends it, and
/// expects to find nothing.
async fn ends_clean(rig: &Rig, tracker: &impl ServerLauncher, spec: &ServerSpec, shape: Shape) {
    if let Some(missing) = missing_tool(spec) {
        return eprintln!("skipped: no {missing} on this machine");
    }
    let mut server = own(tracker.launch(spec).await.unwrap());
    drain(&mut server);
    match shape {
        Shape::Speaks => drop(rig.alive.accept("server", LIMIT).await.unwrap()),
        Shape::Silent(n) => eventually("it is there", || rig.started().len() == n).await,
    }
    let begun = Instant::now();
    let report = server.end(&policy()).await.unwrap();
    let took = begun.elapsed();
    rig.alive.expect_all_dead(Duration::ZERO).await.unwrap();
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

/// A shape of the field needs the tools of the field.
fn missing_tool(spec: &ServerSpec) -> Option<&'static str> {
    const TOOLS: &[(&str, &[&str])] = &[
        ("npm", &["npm", "--version"]),
        ("docker-compose", &["docker-compose", "version"]),
        ("import docker", &["python3", "-c", "import docker"]),
        ("curl", &["curl", "--version"]),
    ];
    let mut words = vec![spec.program().unwrap_or_default().to_string_lossy()];
    words.extend(spec.args().iter().map(|arg| arg.to_string_lossy()));
    let text = words.join(" ");
    let works = |command: &[&str]| {
        let mut command = std::process::Command::new(command[0])
            .args(&command[1..])
            .output();
        command.as_mut().is_ok_and(|output| output.status.success())
    };
    let needed = TOOLS.iter().filter(|(name, _)| text.contains(name));
    needed
        .into_iter()
        .find(|(_, command)| !works(command))
        .map(|(name, _)| *name)
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    /// A server of the fixture says hello.
    Speaks,
    /// So many containers exist.
    Silent(usize),
}

fn drain(server: &mut Owned) {
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

/// A test for a shape that a plain tracker catches.
macro_rules! shape {
    ($name:ident, $shape:expr, $program:expr, $args:expr) => {
        #[tokio::test]
        async fn $name() {
            let Some(rig) = Rig::new(stringify!($name)) else {
                return;
            };
            let tracker = rig.tracker().reap(ReapPolicy::All);
            let spec = rig.wrapped($program, &$args);
            ends_clean(&rig, &tracker, &spec, $shape).await;
        }
    };
    // One that goes around DOCKER_HOST.
    ($name:ident, $shape:expr, $program:expr, $args:expr, private_mounts) => {
        #[tokio::test]
        async fn $name() {
            let Some(rig) = Rig::new(stringify!($name)) else {
                return;
            };
            let tracker = rig.tracker().reap(ReapPolicy::All).private_mounts(true);
            let spec = rig.wrapped($program, &$args);
            ends_clean(&rig, &tracker, &spec, $shape).await;
        }
    };
}

const NODE: &str = r#"require("child_process").spawn("sh", ["-c", "exec docker run -i --rm $RUN $PAYLOAD"], {stdio: "inherit"})"#;

const COMPOSE: &str = r#"
cat > compose.yml <<END
version: "2.4"
services:
  one:
    image: mcp-fixture:test
    network_mode: none
    labels: ["test=$TEST"]
    volumes: ["$DIRECTORY:$DIRECTORY"]
    command: $COMMAND
END
docker-compose -p "$(echo $TEST | tr -d _-)" -f compose.yml up -d && exec sleep 1000"#;

const PYTHON: &str = r#"
import docker, os, time
c = docker.from_env()
d = os.environ["DIRECTORY"]
c.containers.run("mcp-fixture:test", os.environ["COMMAND"], detach=True, network_mode="none",
    labels={"test": os.environ["TEST"]}, volumes={d: {"bind": d, "mode": "rw"}})
time.sleep(1000)"#;

const CURL: &str = r#"
id=$(curl -s --unix-socket "$SOCKET" -H 'Content-Type: application/json' -X POST http://d/containers/create \
  -d "{\"Image\":\"mcp-fixture:test\",\"Cmd\":[\"/mcp-fixture\",\"ignore-eof-term\"],\"Labels\":{\"test\":\"$TEST\"},\"HostConfig\":{\"NetworkMode\":\"none\"},\"OpenStdin\":true}" \
  | tr -d '"{}' | tr ',:' '\n\n' | sed -n 2p)
curl -s --unix-socket "$SOCKET" -X POST http://d/containers/$id/start; exec sleep 1000"#;

const SIBLING: &str = r#"
exec docker run -i --rm --network none --label test=$TEST -v "$SOCKET:/docker.sock" \
  -v /usr:/usr:ro -v /lib:/lib:ro -v /lib64:/lib64:ro -v "$DIRECTORY:$DIRECTORY" mcp-fixture:test \
  /usr/bin/docker -H unix:///docker.sock run -i --rm $RUN $PAYLOAD"#;

shape!(
    shape_01_docker_run,
    Shape::Speaks,
    "sh",
    ["-c", "exec docker run -i --rm $RUN $PAYLOAD"]
);
shape!(
    shape_02_npm_exec_node,
    Shape::Speaks,
    "npm",
    ["exec", "--offline", "-c", &format!("node -e '{NODE}'")]
);
shape!(
    shape_03_sh_wrapper,
    Shape::Speaks,
    "sh",
    ["-c", "docker run -i --rm $RUN $PAYLOAD; true"]
);
shape!(
    shape_04_setsid,
    Shape::Speaks,
    "sh",
    ["-c", "setsid docker run -i --rm $RUN $PAYLOAD"]
);
shape!(
    shape_05_detached,
    Shape::Speaks,
    "sh",
    ["-c", "docker run -d $RUN $PAYLOAD; exec sleep 1000"]
);
shape!(
    shape_06_exec,
    Shape::Speaks,
    "sh",
    [
        "-c",
        "id=$(docker run -d $RUN mcp-fixture:test /mcp-fixture ignore-eof-term) && exec docker exec -i $id $COMMAND"
    ]
);
shape!(
    shape_07_created,
    Shape::Silent(1),
    "sh",
    ["-c", "docker create $RUN $PAYLOAD; exec sleep 1000"]
);
shape!(
    shape_08_compose,
    Shape::Speaks,
    "sh",
    ["-c", &format!("cd $(mktemp -d) && {COMPOSE}")]
);
shape!(shape_09_docker_py, Shape::Speaks, "python3", ["-c", PYTHON]);
shape!(
    shape_10_absolute_path,
    Shape::Speaks,
    "sh",
    ["-c", "exec /usr/bin/docker run -i --rm $RUN $PAYLOAD"]
);
shape!(
    shape_11_explicit_host,
    Shape::Speaks,
    "sh",
    ["-c", "docker -H unix://$SOCKET run -i --rm $RUN $PAYLOAD"],
    private_mounts
);
shape!(
    shape_12_scrubbed_environment,
    Shape::Speaks,
    "sh",
    [
        "-c",
        "env -i PATH=$PATH DOCKER_HOST=unix://$SOCKET docker run -i --rm $RUN $PAYLOAD"
    ],
    private_mounts
);
shape!(
    shape_13_raw_socket,
    Shape::Silent(1),
    "sh",
    ["-c", CURL],
    private_mounts
);
shape!(shape_14_sibling, Shape::Speaks, "sh", ["-c", SIBLING]);

/// The command itself is `docker run`, and says which engine: no proxy, labels.
#[tokio::test]
async fn labels_in_the_command_line() {
    let Some(rig) = Rig::new("labelled") else {
        return;
    };
    let plain = rig.wrapped("sh", &[]);
    let env = |name: &str| {
        let mut all = plain.env().literals();
        let found = all.find(|(found, _)| *found == name).unwrap();
        found.1.to_str().unwrap().to_owned()
    };
    let command = format!(
        "-H {} run -i --rm {} {}",
        rig.engine.host,
        env("RUN"),
        env("PAYLOAD")
    );
    let args: Vec<&str> = command.split(' ').collect();
    let spec = rig.wrapped("docker", &args);
    ends_clean(&rig, &rig.tracker(), &spec, Shape::Speaks).await;
    // And without -H, by the proxy.
    let spec = rig.wrapped("docker", &args[2..]);
    ends_clean(&rig, &rig.tracker(), &spec, Shape::Speaks).await;
}

#[tokio::test]
async fn what_is_detached_stays_and_is_reported_and_strangers_are_not_touched() {
    let Some(rig) = Rig::new("policy") else {
        return;
    };
    let label = format!("test={}", rig.server);
    let stranger = |name: &str| {
        rig.engine.docker(&[
            "run",
            "-d",
            "--network=none",
            "--name",
            name,
            "--label",
            &label,
            "mcp-fixture:test",
            "/mcp-fixture",
            "ignore-eof-term",
        ])
    };
    let before = stranger(&format!("mcp-{}-before", rig.server));
    let script = "docker run -d $RUN $PAYLOAD; docker run -d --rm $RUN $PAYLOAD; exec sleep 1000";
    let mut server = own(rig
        .tracker()
        .launch(&rig.wrapped("sh", &["-c", script]))
        .await
        .unwrap());
    drain(&mut server);
    for _ in 0..2 {
        rig.alive.accept("server", LIMIT).await.unwrap();
    }
    let during = stranger(&format!("mcp-{}-during", rig.server));
    let report: std::sync::Arc<TerminationReport> = server.end(&policy()).await.unwrap();
    let names = |list: &[mcp_lifecycle_core::Remnant]| -> Vec<String> {
        list.iter().map(|remnant| remnant.id.clone()).collect()
    };
    let reported = names(&report.gone.reported);
    assert_eq!(reported.len(), 1, "{report}");
    let mut left = rig.started();
    left.sort();
    let mut expected = vec![before, during, reported[0].clone()];
    expected.sort();
    assert_eq!(left, expected, "{report}");
    // Also not by the next start, once the host is dead.
    let report = rig.tracker().reap_orphans().await.unwrap();
    assert_eq!(names(&report.ended), [String::new(); 0]);
    for id in rig.started() {
        rig.engine.docker(&["rm", "-f", &id]);
    }
}

#[tokio::test]
async fn a_server_that_never_uses_docker_leaves_no_socket() {
    let Some(rig) = Rig::new("unused") else {
        return;
    };
    let sockets = || {
        let files = std::fs::read_dir(rig.leases.path()).unwrap().flatten();
        files
            .filter(|f| f.path().extension().is_some_and(|e| e == "sock"))
            .count()
    };
    let tracker = rig.tracker();
    let mut server = own(tracker.launch(&rig.wrapped("cat", &[])).await.unwrap());
    drain(&mut server);
    assert_eq!(sockets(), 1);
    let report = server.end(&policy()).await.unwrap();
    assert!(report.was_graceful(), "{report}");
    assert_eq!(sockets(), 0);
    // A launch that fails does not leave one either.
    tracker
        .launch(&rig.wrapped("/no/such/program", &[]))
        .await
        .unwrap_err();
    eventually("the socket is removed", || sockets() == 0).await;
}

const HOST: &str = "wrapped::sixty_hosts_killed_at_random_instants_leave_nothing";

/// The host is killed; its next start is told to clean up.
#[tokio::test]
async fn sixty_hosts_killed_at_random_instants_leave_nothing() {
    let Some(rig) = Rig::new("random") else {
        return;
    };
    if let Some(job) = is_host() {
        let (leases, rest) = job.split_once('|').unwrap();
        let (name, script) = rest.split_once('|').unwrap();
        let tracker = rig.tracker().lease_directory(leases);
        let spec = rig.wrapped("sh", &["-c", script]);
        let spec = {
            // The parent's name, so that it finds what is left.
            let run = format!("--network none --init --label test={name}");
            let mut new = ServerSpec::builder(name, "sh").args(["-c", script]);
            for (key, value) in spec.env().literals() {
                new = new.env(key, value);
            }
            new.env("RUN", run)
                .env("PAYLOAD", "mcp-fixture:test /mcp-fixture ignore-eof-term")
                .build()
                .unwrap()
        };
        let _server = tracker.launch(&spec).await.unwrap();
        println!("launched");
        return std::future::pending().await;
    }
    let scripts = [
        "exec docker run -i --rm $RUN $PAYLOAD",
        "docker run -i --rm $RUN $PAYLOAD; true",
        "docker run -d --rm $RUN $PAYLOAD; exec sleep 1000",
        "docker create -i --rm $RUN $PAYLOAD; exec sleep 1000",
    ];
    let mut orphaned = 0;
    for round in 0..60_u64 {
        let script = scripts[round as usize % scripts.len()];
        let job = format!("{}|{}|{script}", rig.leases.path().display(), rig.server);
        let mut host = Host::start(HOST, &job);
        host.wait_for("launched");
        // Spread over the life of a `docker run`, in no order.
        pause(Duration::from_millis(round * 37 % 400)).await;
        host.kill();
        if round % 20 == 19 {
            orphaned += rig.started().len();
            clean_up(&rig).await;
        }
    }
    println!("60 hosts killed: {orphaned} containers orphaned, 0 left");
}

async fn clean_up(rig: &Rig) {
    rig.tracker().reap_orphans().await.unwrap();
    // The last create may have been under way.
    pause(Duration::from_secs(1)).await;
    let report = rig.tracker().reap_orphans().await.unwrap();
    assert!(report.failed.is_empty(), "{report:?}");
    assert_eq!(rig.started(), [String::new(); 0]);
}
