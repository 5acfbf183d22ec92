//! Hosts that are servers of other hosts, in one engine: each proves what is its own.
//!
//! A host is this test again, as the server of the host above it. The innermost one has the
//! containers, and is the one that is judged; the outermost is the test's own process.

use std::os::unix::process::CommandExt as _;
use std::sync::Arc;

use mcp_launcher_docker::ContainerTracker;
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, Remnant, RemnantKind, ServerLauncher, ServerSpec};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};

use crate::contained::mcp_contain;
use crate::support::{Engine, Owned, ROLE, Rig, eventually, in_time, is_host, own, pause};
use crate::wrapped::{drain, policy};

/// What a host is to do, one line: the hosts below it, and the rest as it is.
struct Job {
    /// The number of hosts between this one and the one that has the containers.
    below: usize,
    what: String,
    script: String,
    rig: Told,
}

/// The parts of a rig that a host in another process needs.
#[derive(Clone)]
struct Told {
    test: String,
    /// The engine's own address.
    engine: String,
    server: String,
    ledgers: String,
}

impl Job {
    fn read(text: &str) -> Self {
        let [below, what, script, test, engine, server, ledgers] =
            text.split('|').collect::<Vec<_>>()[..]
        else {
            panic!("{text}");
        };
        let rig = Told {
            test: test.to_owned(),
            engine: engine.to_owned(),
            server: server.to_owned(),
            ledgers: ledgers.to_owned(),
        };
        Self {
            below: below.parse().unwrap(),
            what: what.to_owned(),
            script: script.to_owned(),
            rig,
        }
    }

    fn write(&self) -> String {
        let Told {
            test,
            engine,
            server,
            ledgers,
        } = &self.rig;
        let Self {
            below,
            what,
            script,
            ..
        } = self;
        [
            &below.to_string(),
            what,
            script,
            test,
            engine,
            server,
            ledgers,
        ]
        .map(String::as_str)
        .join("|")
    }
}

impl Told {
    fn of(rig: &Rig, test: &str) -> Self {
        Self {
            test: test.to_owned(),
            engine: rig.engine.host.clone(),
            server: rig.server.clone(),
            ledgers: rig.ledgers.path().display().to_string(),
        }
    }

    fn tracker(&self) -> ContainerTracker {
        ContainerTracker::new(Arc::new(LocalLauncher::new())).ledger_directory(&self.ledgers)
    }

    /// The containers of this test, as the engine itself lists them.
    fn started(&self) -> Vec<String> {
        let engine = Engine {
            host: self.engine.clone(),
        };
        engine.by_label(&format!("test={}", self.server))
    }

    /// A server of the fixture behind a wrapper.
    fn wrapped(&self, script: &str) -> ServerSpec {
        let run = format!("--network none --init --label test={}", self.server);
        let payload = "mcp-fixture:test /mcp-fixture ignore-eof-term";
        self.spec("sh", &["-c", script])
            .env("RUN", run)
            .env("PAYLOAD", payload)
            .build()
            .unwrap()
    }

    /// The engine is the host's own, whatever that leads to.
    fn spec(&self, program: &str, args: &[&str]) -> mcp_lifecycle_core::launch::ServerSpecBuilder {
        ServerSpec::builder(&self.server, program).args(args.iter().copied())
    }
}

/// The command of a host that does this.
fn host_command(job: &Job) -> Vec<String> {
    let test = std::env::current_exe().unwrap().display().to_string();
    let words = [
        "env",
        &format!("{ROLE}={}", job.write()),
        &test,
        "--exact",
        &job.rig.test,
        "--nocapture",
    ];
    words.map(str::to_owned).into()
}

/// Launches a host behind this tracker: it lives until this is dropped or ended.
async fn launch_host(tracker: &dyn ServerLauncher, job: &Job) -> Server {
    let words = host_command(job);
    // What is left of a host that is killed is nobody's but its last will's: its parent stays.
    let script = r#""$@"; exec sleep 1000"#;
    let args = ["-c", script, "sh"]
        .map(str::to_owned)
        .into_iter()
        .chain(words);
    let args: Vec<String> = args.collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut spec = job.rig.spec("sh", &args);
    if let Ok(engine) = std::env::var("DOCKER_HOST") {
        spec = spec.env("DOCKER_HOST", engine);
    }
    let spec = spec.build().unwrap();
    let mut server = own(tracker.launch(&spec, &LaunchContext::new()).await.unwrap());
    let empty = || Box::new(tokio::io::empty());
    let stdout = std::mem::replace(&mut server.stdout, empty());
    let lines = BufReader::new(stdout).lines();
    drain(&mut server);
    Server { server, lines }
}

struct Server {
    server: Owned,
    lines: Lines<BufReader<mcp_lifecycle_core::launch::BoxRead>>,
}

impl Server {
    /// The rest of the next line that begins so.
    async fn says(&mut self, beginning: &str) -> String {
        let find = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                println!("below: {line}");
                if let Some((_, rest)) = line.split_once(beginning) {
                    return rest.trim().to_owned();
                }
            }
            panic!("the host below ended without {beginning:?}");
        };
        in_time(beginning, find).await
    }
}

/// A host in a process of its own.
async fn host(job: &str) {
    let job = Job::read(job);
    let tracker = job.rig.tracker();
    if job.below > 0 {
        let mut below = launch_host(
            &tracker,
            &Job {
                below: job.below - 1,
                what: job.what.clone(),
                script: job.script.clone(),
                rig: job.rig.clone(),
            },
        )
        .await;
        while let Some(line) = below.lines.next_line().await.unwrap() {
            println!("{line}");
        }
        std::future::pending::<()>().await;
    }
    if job.what == "reap" {
        let report = tracker.reap_orphans().await.unwrap();
        println!(
            "reaped {} left {}",
            report.ended.len(),
            job.rig.started().len()
        );
        std::future::pending::<()>().await;
    }
    let tracker = tracker.last_will(job.what != "killed without a will");
    let spec = job.rig.wrapped(&job.script);
    let server = tracker.launch(&spec, &LaunchContext::new()).await.unwrap();
    let mut server = own(server);
    drain(&mut server);
    eventually("its container runs", || !job.rig.started().is_empty()).await;
    println!("launched {}", std::process::id());
    if job.what == "ends" {
        let report = server.end(&policy()).await.unwrap();
        // At this moment, by the engine's own socket.
        let left = job.rig.started().len();
        let is_container = |one: &&Remnant| one.kind == RemnantKind::Container;
        let swept = report.gone.swept.iter().filter(is_container).count();
        let kept = report.gone.reported.len();
        println!("PROOF: swept {swept} kept {kept} left {left}");
    }
    std::future::pending::<()>().await;
}

const DETACHED: &str = "docker run -d --rm $RUN $PAYLOAD; exec sleep 1000";

const PROOF: &str = "nested_hosts::a_host_within_hosts_proves_the_end_of_its_containers";

#[tokio::test]
async fn a_host_within_hosts_proves_the_end_of_its_containers() {
    if let Some(job) = is_host() {
        return host(&job).await;
    }
    let Some(rig) = Rig::new("nested-proof") else {
        return;
    };
    let told = Told::of(&rig, PROOF);
    let tracker = told.tracker();
    for below in [0, 1] {
        let job = |what: &str, script: &str| Job {
            below,
            what: what.to_owned(),
            script: script.to_owned(),
            rig: told.clone(),
        };
        let mut outer = launch_host(&tracker, &job("ends", DETACHED)).await;
        assert_eq!(
            outer.says("PROOF:").await,
            "swept 1 kept 0 left 0",
            "{below}"
        );
        outer.server.end(&policy()).await.unwrap();
        // One that is kept is reported, by each of them, and left alone.
        let kept = DETACHED.replace("--rm", "");
        let mut outer = launch_host(&tracker, &job("ends", &kept)).await;
        assert_eq!(
            outer.says("PROOF:").await,
            "swept 0 kept 1 left 1",
            "{below}"
        );
        let report = outer.server.end(&policy()).await.unwrap();
        assert_eq!(report.gone.reported.len(), 1, "{report}");
        for id in rig.started() {
            rig.engine.docker(&["rm", "-f", &id]);
        }
    }
}

const KILLED: &str = "nested_hosts::a_killed_host_within_a_host_leaves_no_container";

#[tokio::test]
async fn a_killed_host_within_a_host_leaves_no_container() {
    if let Some(job) = is_host() {
        return host(&job).await;
    }
    let Some(rig) = Rig::new("nested-killed") else {
        return;
    };
    let told = Told::of(&rig, KILLED);
    let tracker = told.tracker();
    let job = |what: &str| Job {
        below: 0,
        what: what.to_owned(),
        script: DETACHED.to_owned(),
        rig: told.clone(),
    };
    let killed = async |what: &str| {
        let mut outer = launch_host(&tracker, &job(what)).await;
        let pid = outer.says("launched").await.parse().unwrap();
        assert_eq!(rig.started().len(), 1);
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        outer
    };
    // By its last will, while the host above it lives.
    let outer = killed("killed").await;
    eventually("its last will is done", || rig.started().is_empty()).await;
    outer.server.end(&policy()).await.unwrap();
    // By the next host there.
    let outer = killed("killed without a will").await;
    pause(std::time::Duration::from_secs(2)).await;
    assert_eq!(rig.started().len(), 1, "there is nobody to remove it");
    let mut next = launch_host(&tracker, &job("reap")).await;
    assert_eq!(next.says("reaped").await, "1 left 0");
    for host in [outer, next] {
        host.server.end(&policy()).await.unwrap();
    }
}

const CONTAINED: &str = "nested_hosts::a_host_behind_mcp_contain_proves_the_end_of_its_containers";

#[tokio::test]
async fn a_host_behind_mcp_contain_proves_the_end_of_its_containers() {
    if let Some(job) = is_host() {
        return host(&job).await;
    }
    let Some(rig) = Rig::new("nested-contained") else {
        return;
    };
    let told = Told::of(&rig, CONTAINED);
    // mcp-contain, a host below it, and mcp-contain below that.
    let inner = mcp_contain().display().to_string();
    for script in [
        DETACHED.to_owned(),
        format!("MCP_LIFECYCLE_STATE_DIR=$TMPDIR {inner} --containers -- sh -c '{DETACHED}'"),
    ] {
        let job = Job {
            below: 0,
            what: "ends".to_owned(),
            script,
            rig: told.clone(),
        };
        let state = rig.ledgers.path().join("state");
        let mut child = std::process::Command::new(mcp_contain());
        child
            .args(["--containers", "--"])
            .args(host_command(&job))
            .env("MCP_LIFECYCLE_STATE_DIR", &state)
            .env("DOCKER_HOST", &rig.engine.host)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .process_group(0);
        let mut child = tokio::process::Command::from(child).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let proof = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("a proof");
                if let Some((_, proof)) = line.split_once("PROOF:") {
                    return proof.trim().to_owned();
                }
            }
        };
        let proof = in_time("the host below proves it", proof).await;
        assert!(proof.ends_with("left 0"), "{proof}");
        drop(child.stdin.take());
        in_time("it ends", child.wait()).await.unwrap();
        assert!(rig.started().is_empty());
    }
}
