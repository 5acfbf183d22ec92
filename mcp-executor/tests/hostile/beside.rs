//! An honest client beside an attack, and its like beside none.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mcp_launcher_executor::{ExecServerConfig, ExecutorLauncher};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;
use tokio::sync::oneshot::Receiver;

use crate::raw::{Raw, TOKEN};
use crate::support::{Peer, launch, launcher, listen, sh, within, without_haste};

/// The daemon, or an optimized build of it: `MCP_HOSTILE_DAEMON` names one.
fn program() -> String {
    let built = env!("CARGO_BIN_EXE_mcp-executor");
    std::env::var("MCP_HOSTILE_DAEMON").unwrap_or_else(|_| built.to_owned())
}

/// The most that the daemon may have in memory, in KiB.
const MOST_MEMORY: u64 = 128 << 10;

/// The time that a call of an honest client may take at an optimized daemon. One that is not
/// optimized is only asked not to starve anybody: it runs beside whatever else a test run does.
const P99: Duration = Duration::from_millis(50);

/// On a machine where even an idle daemon cannot keep to [`P99`], so many times
/// as much as at that one, or its slowest call.
const OVER_FLOOR: u32 = 3;

/// How many calls an honest client makes at least.
const CALLS: usize = 20;

/// One attack at a time: two would be each other's noise.
static TURN: Mutex<()> = Mutex::const_new(());

/// The token of the honest clients.
const HONEST: &str = "the-token-of-an-honest-client";

/// The configuration of an honest client.
pub(crate) fn honest(url: &str) -> ExecServerConfig {
    ExecutorLauncher::websocket(url).token(HONEST)
}

/// A file of this process that has this token: each test may be a process of its own.
fn token_file(name: &str, token: &str) -> String {
    let path = format!(
        "{}/{name}-{}",
        env!("CARGO_TARGET_TMPDIR"),
        std::process::id()
    );
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    std::io::Write::write_all(&mut options.open(&path).unwrap(), token.as_bytes()).unwrap();
    path
}

pub(crate) async fn daemon(lease: &str) -> Peer {
    static FILES: LazyLock<[String; 2]> =
        LazyLock::new(|| [token_file("honest", HONEST), token_file("raw", TOKEN)]);
    let mut args = vec!["--listen", "ws://127.0.0.1:0", "--lease", lease];
    for file in FILES.iter() {
        args.extend(["--token-file", file]);
    }
    listen(&program(), &args).await
}

/// Lets an honest client with a short lease work beside an attack under another token: it
/// keeps its server, each call is answered in time, and the daemon stays small.
///
/// The floor is the same client at the same time at a daemon that nobody attacks.
pub(crate) async fn beside(attack: impl AsyncFnOnce(&Peer)) {
    let _turn = TURN.lock().await;
    let (attacked, idle) = (daemon("10").await, daemon("10").await);
    let stop = Arc::new(AtomicBool::new(false));
    let mut honest = [&attacked, &idle].map(|peer| work(&peer.url, &stop));
    for (_, began) in &mut honest {
        within(began).await.unwrap();
    }
    attack(&attacked).await;
    stop.store(true, Ordering::Release);
    let [took, floor] = honest.map(|(thread, _)| Calls::of(thread.join().unwrap()));
    let memory = peak(&attacked);
    eprintln!("{took:?}; floor {floor:?}; {memory} KiB");
    assert!(took.count >= CALLS, "{took:?}");
    assert!(memory < MOST_MEMORY, "{memory} KiB");
    assert!(
        !is_optimized() || took.p99 < P99.max(floor.p99 * OVER_FLOOR).max(floor.slowest),
        "{took:?}, without the attack {floor:?}"
    );
    // Far below the minute that starvation took, whatever else runs here.
    assert!(took.slowest < Duration::from_secs(10), "{took:?}");
}

fn is_optimized() -> bool {
    !cfg!(debug_assertions) || std::env::var_os("MCP_HOSTILE_DAEMON").is_some()
}

#[derive(Debug)]
struct Calls {
    count: usize,
    p99: Duration,
    slowest: Duration,
}

impl Calls {
    fn of(mut took: Vec<Duration>) -> Self {
        took.sort_unstable();
        Self {
            count: took.len(),
            p99: took[took.len() * 99 / 100],
            slowest: took[took.len() - 1],
        }
    }
}

/// A client that calls its server until it is stopped, on a thread of its own:
/// what the attacker does with this process's runtime is not its business.
///
/// The receiver learns of the first call.
fn work(url: &str, stop: &Arc<AtomicBool>) -> (JoinHandle<Vec<Duration>>, Receiver<()>) {
    let (mut config, stop) = (honest(url), Arc::clone(stop));
    config.lease = Some(Duration::from_secs(3));
    let (begin, began) = tokio::sync::oneshot::channel();
    let calls = async move || {
        let launcher = launcher(config).await;
        let mut server = launch(&launcher, sh("exec cat")).await;
        let mut took = Vec::new();
        let mut begin = Some(begin);
        // What an attack that is over at once has done is felt afterwards.
        while !stop.load(Ordering::Acquire) || took.len() < CALLS {
            let begun = Instant::now();
            server.stdin.write_all(b"ping\n").await.unwrap();
            assert_eq!(server.line().await, "ping");
            took.push(begun.elapsed());
            begin.take().map(|begin| begin.send(()));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.end(&without_haste()).await.unwrap();
        took
    };
    let thread = std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(calls())
    });
    (thread, began)
}

/// The most memory that the daemon has ever had, in KiB.
fn peak(peer: &Peer) -> u64 {
    let pid = peer.child.id().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let number = line.unwrap().split_whitespace().nth(1);
    number.unwrap().parse().unwrap()
}

/// An attack by one client: this again and again, each time until the daemon has heard it.
pub(crate) async fn flood(round: impl AsyncFnMut(&mut Raw, u64)) {
    flood_after(async |peer| Raw::open(&peer.url).await.0, round).await;
}

/// As [`flood`], by a client that has prepared itself.
pub(crate) async fn flood_after(
    prepare: impl AsyncFnOnce(&Peer) -> Raw,
    mut round: impl AsyncFnMut(&mut Raw, u64),
) {
    beside(async |peer| {
        let mut raw = prepare(peer).await;
        for_a_while(async {
            for number in 0.. {
                round(&mut raw, number).await;
                raw.request("environment/status", json!({})).await.unwrap();
                raw.early.clear();
            }
        })
        .await;
    })
    .await;
}

/// Until this has passed, or the daemon has had enough.
pub(crate) async fn for_a_while(attack: impl Future<Output = ()>) {
    let _ = tokio::time::timeout(Duration::from_secs(3), attack).await;
}
