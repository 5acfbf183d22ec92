//! How fast a tree of 200 processes is ended, against a `killpg` that reaches
//! all of it, what 2,000 starts of daemons leave behind, and how often anybody
//! wakes up while nothing happens.
//!
//! ```text
//! cargo bench -p mcp-lifecycle-conformance --bench containment [-- burst cycles idle]
//! ```
//!
//! Truth is the end of file on a FIFO that every process of the tree holds.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::alive::AliveListener;
use mcp_lifecycle_conformance::deadline::Watchdog;
use mcp_lifecycle_core::client::{LifecycleClient, ServerConfig};
use mcp_lifecycle_core::launch::{LaunchContext, LaunchedParts, ServerLauncher, ServerSpec};
use mcp_lifecycle_measure::{Figure, Run};

/// Trees ended in each way.
const ROUNDS: usize = 25;

/// Starts that are killed by an order. Hosts that are killed while they start are the
/// conformance kit's: `MCP_CONFORMANCE_ROUNDS=70 cargo test --test conformance_local spawning`.
const ORDERS: usize = 1800;

/// Shapes that start daemons: each leaves its server in another way.
const DAEMONS: [&str; 3] = ["setsid", "double-fork", "wiped-env"];

const FIXTURE: &str = env!("CARGO_BIN_EXE_mcp-fixture");

/// 199 processes and their parent; the last line says that they are there.
const BURST: &str = "exec 2>\"$0\"; i=0; while [ $i -lt 199 ]; do sleep 3600 & i=$((i+1)); done; \
                     echo ready; wait";

/// Tells this program that it is a host, and where the FIFO is.
const HOST: &str = "MCP_BENCH_FIFO";

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let launcher = Arc::new(LocalLauncher::new());
    if let Some(fifo) = std::env::var_os(HOST) {
        return runtime.block_on(hold_a_burst(&launcher, Path::new(&fifo)));
    }
    let only: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| name.contains(o.as_str()));
    println!("{}", runtime.block_on(launcher.probe()));
    let mut run = Run::begin("containment");
    if wanted("burst") {
        burst(&mut run, &runtime, &launcher);
    }
    if wanted("idle") {
        idle(&mut run, &launcher);
    }
    if wanted("cycles") {
        cycles(&mut run, &runtime, &launcher);
    }
    run.finish();
}

fn burst(run: &mut Run, runtime: &tokio::runtime::Runtime, launcher: &LocalLauncher) {
    let _watchdog = Watchdog::arm("bursts", Duration::from_secs(300));
    let (mut floor, mut order, mut host) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floor.push(killed_by_group());
        order.push(runtime.block_on(killed_by_order(launcher)));
        host.push(killed_with_the_host());
    }
    let [floor, order, host] = [floor, order, host].map(|mut times: Vec<Duration>| {
        times.sort_unstable();
        let ms = |at: usize| times[at].as_secs_f64() * 1e3;
        (ms(times.len() / 2), ms(times.len() - 1))
    });
    let killpg = ("killpg of a group of 200 processes", floor.0);
    let name = "a tree of 200 processes by force_end, p50";
    run.figure(Figure::ratio(name, order.0, killpg, "ms").at_most(1.1));
    let name = "a tree of 200 processes, SIGKILL of the host, p50";
    run.figure(Figure::ours(name, host.0, "ms").at_most(20.0));
    for (what, most) in [
        ("floor: killpg of a group of 200 processes", floor.1),
        ("a tree of 200 processes by force_end", order.1),
        ("a tree of 200 processes, SIGKILL of the host", host.1),
    ] {
        run.figure(Figure::ours(format!("{what}, most"), most, "ms"));
    }
}

/// The floor: one group, one signal, no guardian.
fn killed_by_group() -> Duration {
    let mut fifo = Fifo::new();
    let mut leader = Command::new("/bin/sh")
        .args(["-c", BURST])
        .arg(&fifo.path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    wait_for_ready(leader.stdout.as_mut().unwrap());
    let group = nix::unistd::Pid::from_raw(i32::try_from(leader.id()).unwrap());
    let begun = Instant::now();
    nix::sys::signal::killpg(group, nix::sys::signal::SIGKILL).unwrap();
    let took = fifo.ends_after(begun);
    leader.wait().unwrap();
    took
}

async fn killed_by_order(launcher: &LocalLauncher) -> Duration {
    let mut fifo = Fifo::new();
    let server = launch_burst(launcher, &fifo.path).await;
    let begun = Instant::now();
    server.terminator.force_end().await.unwrap();
    let took = fifo.ends_after(begun);
    server.terminator.gone().await.unwrap();
    took
}

fn killed_with_the_host() -> Duration {
    let mut fifo = Fifo::new();
    let mut host = Command::new(std::env::current_exe().unwrap())
        .env(HOST, &fifo.path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_ready(host.stdout.as_mut().unwrap());
    let begun = Instant::now();
    host.kill().unwrap();
    let took = fifo.ends_after(begun);
    host.wait().unwrap();
    took
}

/// A host: has a burst, says so, and waits to be killed.
async fn hold_a_burst(launcher: &LocalLauncher, fifo: &Path) {
    let _server = launch_burst(launcher, fifo).await;
    println!("ready");
    std::future::pending().await
}

async fn launch_burst(launcher: &LocalLauncher, fifo: &Path) -> LaunchedParts {
    use tokio::io::AsyncBufReadExt;
    let spec = ServerSpec::builder("burst", "/bin/sh").args(["-c", BURST]);
    let spec = spec.arg(fifo).build().unwrap();
    let mut server = launcher
        .launch(&spec, &LaunchContext::new())
        .await
        .unwrap()
        .into_parts();
    let mut line = String::new();
    let mut stdout = tokio::io::BufReader::new(&mut server.stdout);
    stdout.read_line(&mut line).await.unwrap();
    assert_eq!(line, "ready\n");
    server
}

fn wait_for_ready(from: &mut impl Read) {
    let mut seen = Vec::new();
    while !seen.ends_with(b"ready\n") {
        let mut byte = [0];
        from.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
}

/// Everybody in a tree holds the writing end.
struct Fifo {
    path: PathBuf,
    read: File,
    _directory: tempfile::TempDir,
}

impl Fifo {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("alive");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // Does not wait for a writer; reading does, from then on.
        let read = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(&path)
            .unwrap();
        Self {
            path,
            read,
            _directory: directory,
        }
    }

    /// Waits for the end of file, which proves that everybody is dead.
    fn ends_after(&mut self, begun: Instant) -> Duration {
        use nix::fcntl::{FcntlArg, OFlag, fcntl};
        fcntl(&self.read, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        let mut words = Vec::new();
        self.read.read_to_end(&mut words).unwrap();
        let took = begun.elapsed();
        assert!(words.is_empty(), "{}", String::from_utf8_lossy(&words));
        took
    }
}

/// Wake-ups of a host with ready clients, and of their guardians.
fn idle(run: &mut Run, launcher: &Arc<LocalLauncher>) {
    const CLIENTS: usize = 20;
    const SPAN: Duration = Duration::from_secs(3);
    // Of its own, so that nothing else runs on it.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let spec = ServerSpec::builder("echo", env!("CARGO_BIN_EXE_mcp-echo"));
        let start =
            LifecycleClient::start(ServerConfig::new(launcher.clone(), spec.build().unwrap()));
        clients.push(runtime.block_on(start).unwrap());
    }
    // The first span shows what a start still has to do after it is ready.
    for span in ["first", "second"] {
        let (host, guardians) = (wake_ups("self"), guardian_wake_ups());
        thread::sleep(SPAN);
        // This thread's own sleep is one of them.
        let host = wake_ups("self") - host - 1;
        let guardians = guardian_wake_ups() - guardians;
        for (who, times) in [("host", host), ("guardians", guardians)] {
            let name = format!("wake-ups of {CLIENTS} idle clients, {who}, {span} {SPAN:?}");
            let figure = Figure::ours(name, times as f64, "");
            run.figure(figure.at_most(0.0));
        }
    }
    for client in clients {
        runtime.block_on(client.shutdown()).unwrap();
    }
}

/// Context switches of a process's threads, of those that live now.
fn wake_ups(process: &str) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let switches = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    tasks.map(switches).sum()
}

fn guardian_wake_ups() -> u64 {
    children().iter().map(|pid| wake_ups(pid)).sum()
}

fn cycles(run: &mut Run, runtime: &tokio::runtime::Runtime, launcher: &LocalLauncher) {
    let begun = Instant::now();
    let seed = begun.elapsed().as_nanos() as u64 ^ u64::from(std::process::id());
    println!("\n{ORDERS} daemonising servers killed at random instants, seed {seed}");
    runtime.block_on(killed_at_random(launcher, seed));
    let name = format!("survivors of {ORDERS} daemonising servers killed at random instants");
    run.figure(Figure::ours(name, 0.0, "").at_most(0.0));
}

async fn killed_at_random(launcher: &LocalLauncher, mut seed: u64) {
    let limit = Duration::from_secs(10);
    let listener = AliveListener::unix().unwrap();
    for cycle in 0..ORDERS {
        let _watchdog = Watchdog::arm("a cycle", Duration::from_secs(60));
        let name = DAEMONS[cycle % DAEMONS.len()];
        let spec = ServerSpec::builder(name, FIXTURE).args([name, "--alive"]);
        let spec = spec.arg(listener.address()).build().unwrap();
        let server = launcher
            .launch(&spec, &LaunchContext::new())
            .await
            .unwrap()
            .into_parts();
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        // The random instant is the experiment: nothing is waited for here.
        thread::sleep(Duration::from_micros((seed >> 33) % 4000));
        server.terminator.force_end().await.unwrap();
        server.terminator.gone().await.unwrap();
        let alive = listener.alive_at_this_moment(limit).await.unwrap();
        assert!(alive.is_empty(), "cycle {cycle}, {name}: {alive:?}");
    }
    assert_no_children();
}

/// Also of guardians nothing is left, not even a zombie.
fn assert_no_children() {
    assert_eq!(children(), Vec::<String>::new());
}

/// The children of this process, whichever of its threads started them.
fn children() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let children = std::fs::read_to_string(task.unwrap().path().join("children"));
        let children = children.unwrap_or_default();
        children
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    tasks.flat_map(of_task).collect()
}
