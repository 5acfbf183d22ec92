//! The wrapper beside others that contain: what a start, an end and a server's company cost, and what survives a killed
//! host. `tests/run peers` installs them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::hosts::Host;
use crate::servers;

const TURNS: usize = 15;

/// The time after the host's death at which a process that is alive has survived it.
const LIMIT: Duration = Duration::from_secs(10);

/// Prints the table of the peers in `MCP_TEST_PEERS`, lines of a name and, after a `=`, the command that is put before
/// the server's. The first is the bare server.
pub(crate) fn table() -> io::Result<()> {
    let lines = std::env::var("MCP_TEST_PEERS").map_err(io::Error::other)?;
    let peers: Vec<(&str, Vec<&str>)> = lines
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, words)| (name, words.split_whitespace().collect()))
        .collect();
    let mut costs = vec![Vec::new(); peers.len()];
    for _ in 0..TURNS {
        for ((_, words), costs) in peers.iter().zip(&mut costs) {
            costs.push(cost(words)?);
        }
    }
    let rows = servers::ALL.len();
    println!("in front,start ms,end ms,memory MiB,processes,survivors of {rows},which");
    for ((name, words), costs) in peers.iter().zip(costs) {
        let middle = |of: fn(&Cost) -> f64| {
            let mut all: Vec<_> = costs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let (start, end) = (middle(|it| it.start), middle(|it| it.end));
        let (memory, count) = (middle(|it| it.memory), middle(|it| it.processes));
        let left = survivors(words);
        let which = left.join(" ");
        println!(
            "{name},{start:.2},{end:.2},{memory:.2},{count},{},{which}",
            left.len()
        );
    }
    Ok(())
}

/// Milliseconds to the first reply of `cat`, and from the end of its input to the end of its wrapper; the memory of
/// what stands beside it (proportional, in MiB), and how many processes that is.
#[derive(Clone)]
struct Cost {
    start: f64,
    end: f64,
    memory: f64,
    processes: f64,
}

fn cost(words: &[&str]) -> io::Result<Cost> {
    let all = [words, &["cat"]].concat();
    let before = processes()?;
    let begun = Instant::now();
    let mut child = Command::new(all[0])
        .args(&all[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).expect("piped");
    let (mut stdin, mut stdout) = (stdin, stdout);
    stdin.write_all(b"hello\n")?;
    stdout.read_exact(&mut [0; 6])?;
    let start = begun.elapsed();
    // A wrapper may still become smaller.
    std::thread::sleep(Duration::from_millis(200));
    let beside = processes()?
        .difference(&before)
        .filter_map(|pid| beside(*pid))
        .collect::<Vec<_>>();
    let begun = Instant::now();
    drop(stdin);
    child.wait()?;
    Ok(Cost {
        start: start.as_secs_f64() * 1e3,
        end: begun.elapsed().as_secs_f64() * 1e3,
        memory: beside.iter().sum::<f64>() / 1024.0,
        processes: beside.len() as f64,
    })
}

fn processes() -> io::Result<BTreeSet<u32>> {
    let entries = fs::read_dir("/proc")?.filter_map(Result::ok);
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// The proportional set size in KiB, unless it is the server or a thread of the kernel.
fn beside(pid: u32) -> Option<f64> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let memory = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = memory.lines().find(|line| line.starts_with("Pss:"))?;
    let size = line.split_whitespace().nth(1)?.parse().ok()?;
    (name.trim() != "cat").then_some(size)
}

/// The misbehaviours of which something outlives a host that is killed.
fn survivors(words: &[&str]) -> Vec<&'static str> {
    let killed = Host::ALL.iter().find(|host| host.name == "host-killed");
    let host = killed.expect("a column");
    let bare = ["env"];
    let words = if words.is_empty() { &bare[..] } else { words };
    let survives = |server: &&servers::Server| match host.ends_through(words, server, LIMIT) {
        Err(why) if why.contains("still alive") => true,
        Err(why) => panic!("{words:?}, {}: {why}", server.name),
        Ok(_) => false,
    };
    servers::ALL
        .iter()
        .filter(survives)
        .map(|it| it.name)
        .collect()
}
