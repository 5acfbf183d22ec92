//! Fifty real daemons behind one set, one killed every second: the servers of a
//! pool go on elsewhere, and nothing of a killed daemon is left.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcp_launcher_executor::{ExecServer, ExecServerConfig, ExecutorLauncher, ExecutorSet, Member};
use mcp_lifecycle_core::client::{RestartPolicy, ServerConfig};
use mcp_lifecycle_core::fleet::ServerPool;
use mcp_lifecycle_core::launch::{InheritEnv, ServerLauncher, ServerSpec};
use nix::sys::stat::Mode;
use rmcp::model::CallToolRequestParams;
use serde_json::json;
use support::{DAEMON, Peer, echo_server, started, within};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Command;

const DAEMONS: usize = 50;
const SERVERS: usize = 50;
const KILLS: usize = 15;

/// Every process of a server holds the writing end of its daemon's pipe, and
/// says so with a byte: end of file is the proof that all are gone.
const SCRIPT: &str = r#"exec 9>"$MCP_TEST_PIPE"; printf x >&9; setsid sleep 1000 & exec "$0""#;

struct Daemon {
    peer: Peer,
    pipe: PathBuf,
    held: pipe::Receiver,
    killed: bool,
}

async fn start(directory: &Path, index: usize) -> Daemon {
    let pipe = directory.join(format!("pipe-{index}"));
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let held = pipe::OpenOptions::new().open_receiver(&pipe).unwrap();
    Daemon {
        peer: spawn("ws://127.0.0.1:0", &pipe).await,
        pipe,
        held,
        killed: false,
    }
}

async fn spawn(listen: &str, pipe: &Path) -> Peer {
    let mut command = Command::new(DAEMON);
    command
        .args(["--listen", listen, "--lease", "1"])
        .env("MCP_TEST_PIPE", pipe)
        .env("RUST_LOG", "warn");
    started(&mut command).await
}

impl Daemon {
    fn member(&self, index: usize) -> Member {
        let mut config = ExecServerConfig::websocket(&self.peer.url);
        // A daemon that is killed does not come back within it.
        config.resume_window = Duration::from_millis(500);
        config.connect_timeout = Duration::from_secs(5);
        Member::new(format!("m{index}"), ExecServer::new(config)).capacity(4)
    }

    /// Kills it; how long until nothing of its servers was left, and how many
    /// of them there had been.
    async fn kill(&mut self) -> (Duration, usize) {
        self.killed = true;
        let begun = Instant::now();
        self.peer.child.kill().await.unwrap();
        let mut said = Vec::new();
        within(self.held.read_to_end(&mut said)).await.unwrap();
        (begun.elapsed(), said.len())
    }

    /// Its resident memory, as the kernel tells, in KiB.
    fn resident(&self) -> u64 {
        resident(&self.peer.child.id().unwrap().to_string())
    }
}

fn resident(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.unwrap().trim_end_matches("kB").trim().parse().unwrap()
}

fn server(launcher: &Arc<dyn ServerLauncher>, index: usize) -> ServerConfig {
    let spec = ServerSpec::builder(format!("s{index}"), "/bin/sh")
        .args([
            std::ffi::OsString::from("-c"),
            SCRIPT.into(),
            echo_server().into(),
        ])
        .inherit_env(InheritEnv::All)
        .cwd("/")
        .build()
        .unwrap();
    ServerConfig::new(Arc::clone(launcher), spec).with_restart(RestartPolicy::default())
}

/// The findings of one caller.
#[derive(Default)]
struct Seen {
    /// How long each call took that succeeded.
    took: Vec<Duration>,
    failed: usize,
    /// The longest time without a success.
    longest: Duration,
}

/// Calls its server again and again until told to stop, and until it is well.
async fn call(pool: Arc<ServerPool>, server: ServerConfig, stop: Arc<AtomicBool>) -> Seen {
    let mut seen = Seen::default();
    let mut good = Instant::now();
    for number in 0_u64.. {
        let text = format!("{}-{number}", server.name());
        let begun = Instant::now();
        match one(&pool, &server, &text).await {
            Ok(answer) => {
                assert!(answer.contains(&text), "{text} was answered {answer}");
                seen.longest = seen.longest.max(good.elapsed());
                good = Instant::now();
                seen.took.push(begun.elapsed());
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            Err(error) => {
                seen.failed += 1;
                assert!(good.elapsed() < Duration::from_secs(60), "{text}: {error}");
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    seen
}

async fn one(pool: &ServerPool, server: &ServerConfig, text: &str) -> Result<String, String> {
    let lease = pool.acquire(server).await.map_err(|e| e.to_string())?;
    let arguments = json!({"text": text});
    let params = CallToolRequestParams::new("echo");
    let params = params.with_arguments(arguments.as_object().unwrap().clone());
    let result = lease.peer().call_tool(params).await;
    let result = result.map_err(|error| error.to_string())?;
    Ok(serde_json::to_string(&result).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_on_fifty_daemons_survives_the_loss_of_one_every_second() {
    let directory = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let starts = (0..DAEMONS).map(|index| start(directory.path(), index));
    let mut daemons = futures_util::future::join_all(starts).await;
    let members = daemons.iter().enumerate().map(|(i, d)| d.member(i));
    let set = ExecutorSet::new(members);
    let launcher: Arc<dyn ServerLauncher> = Arc::new(ExecutorLauncher::new(set.clone()));
    let pool = Arc::new(ServerPool::new("p"));
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..SERVERS)
        .map(|index| server(&launcher, index))
        .map(|server| tokio::spawn(call(Arc::clone(&pool), server, Arc::clone(&stop))))
        .collect();
    let mut changes = set.subscribe();
    let all = |states: &Vec<mcp_launcher_executor::MemberState>| {
        states.iter().all(|state| state.running == 1)
    };
    drop(within(changes.wait_for(all)).await.unwrap());
    let ready = begun.elapsed();

    let mut slowest = Duration::ZERO;
    let mut every = tokio::time::interval(Duration::from_secs(1));
    for index in 0..KILLS {
        every.tick().await;
        let daemon = &mut daemons[index * 3];
        let (took, servers) = daemon.kill().await;
        assert!(servers > 0, "nothing ran on daemon {index}");
        slowest = slowest.max(took);
        if index % 2 == 0 {
            // This machine comes back; the others do not.
            daemon.peer = spawn(&daemon.peer.url, &daemon.pipe).await;
            daemon.killed = false;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut took = Vec::new();
    let (mut failed, mut longest) = (0, Duration::ZERO);
    for caller in callers {
        let seen = within(caller).await.unwrap();
        took.extend(seen.took);
        failed += seen.failed;
        longest = longest.max(seen.longest);
    }
    took.sort();
    let p99 = took[took.len() * 99 / 100];
    let largest = daemons.iter().filter(|d| !d.killed).map(Daemon::resident);
    let largest = largest.max().unwrap();
    eprintln!(
        "{DAEMONS} daemons ready after {ready:.1?}, all over after {:.1?}; {} calls, p99 {p99:.1?}, \
         {failed} to be repeated; longest without one {longest:.1?}; a killed daemon's servers \
         gone within {slowest:.1?}; memory: {} KiB here, {largest} KiB at most in a daemon",
        begun.elapsed(),
        took.len(),
        resident("self"),
    );
    assert!(resident("self") < 256 << 10 && largest < 64 << 10);

    within(pool.shutdown(Duration::from_secs(30)))
        .await
        .unwrap();
    assert!(
        set.states().iter().all(|state| state.running == 0),
        "{set:#?}"
    );
    for daemon in &mut daemons {
        let mut said = Vec::new();
        within(daemon.held.read_to_end(&mut said)).await.unwrap();
    }
}
