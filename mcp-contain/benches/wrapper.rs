//! Cost of the wrapper against the same server without it, in turns within one run: `cargo bench -p mcp-contain`.
//!
//! Round trips of 200 bytes, the time from the start to the first reply, and what an idle wrapped server holds: private memory of shim and
//! guardian, and how often they were woken up. Nothing asserts on time; `docs/benchmarks.md` has the numbers.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const LINE: [u8; 200] = [b'x'; 200];
const ROUND_TRIPS: usize = 2_000;
const TURNS: usize = 15;

/// A server that echoes, and the host's ends of its streams.
struct Echo {
    child: Child,
    stdin: Option<fs::File>,
    stdout: fs::File,
}

impl Echo {
    fn start(wrapped: bool, sockets: bool) -> io::Result<Self> {
        let mut command = match wrapped {
            true => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-contain"));
                command.arg("cat");
                command
            }
            false => Command::new("cat"),
        };
        let ((stdin, theirs), (stdout, their_stdout)) = match sockets {
            true => (socket_pair()?, socket_pair()?),
            false => {
                let (reader, writer) = io::pipe()?;
                let (output, their_output) = io::pipe()?;
                (
                    (OwnedFd::from(writer), OwnedFd::from(reader)),
                    (OwnedFd::from(output), OwnedFd::from(their_output)),
                )
            }
        };
        let child = command.stdin(theirs).stdout(their_stdout).spawn()?;
        drop(command);
        Ok(Self {
            child,
            stdin: Some(stdin.into()),
            stdout: stdout.into(),
        })
    }

    fn round_trip(&mut self) -> io::Result<()> {
        if let Some(stdin) = &mut self.stdin {
            stdin.write_all(&LINE)?;
        }
        self.stdout.read_exact(&mut [0; LINE.len()])
    }

    fn end(mut self) -> io::Result<()> {
        self.stdin = None;
        self.child.wait().map(drop)
    }
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    Ok((ours.into(), theirs.into()))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The medians of the bare and of the wrapped server, measured in turns.
fn compare(what: &str, mut measure: impl FnMut(bool) -> io::Result<Duration>) -> io::Result<()> {
    let (mut bare, mut wrapped) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        bare.push(measure(false)?);
        wrapped.push(measure(true)?);
    }
    let (bare, wrapped) = (median(bare), median(wrapped));
    let ratio = wrapped.as_secs_f64() / bare.as_secs_f64();
    println!("{what:<44} bare {bare:>10.1?}   wrapped {wrapped:>10.1?}   {ratio:.2}x");
    Ok(())
}

/// The kilobytes that a process shares with nobody, and how often it went to sleep.
fn held(pid: u32) -> io::Result<(u64, u64)> {
    let number = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    let sum = |text: String, start: &str| -> u64 {
        let lines = text.lines().filter(|line| line.starts_with(start));
        lines.filter_map(number).sum()
    };
    let memory = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok((
        sum(memory, "Private_"),
        sum(status, "voluntary_ctxt_switches"),
    ))
}

fn idle() -> io::Result<()> {
    const FOR: Duration = Duration::from_secs(5);
    let mut server = Echo::start(true, true)?;
    server.round_trip()?;
    // The wrapper becomes the shim a moment after the server runs.
    std::thread::sleep(Duration::from_secs(1));
    let shim = server.child.id();
    let children = fs::read_to_string(format!("/proc/{shim}/task/{shim}/children"))?;
    let guardian: u32 = children.trim().parse().map_err(io::Error::other)?;
    for (name, pid) in [("shim", shim), ("guardian", guardian)] {
        let before = held(pid)?.1;
        std::thread::sleep(FOR);
        let (memory, after) = held(pid)?;
        let woken = after - before;
        println!("{name:<44} private {memory} kB, woken up {woken} times in {FOR:?}");
    }
    server.end()
}

fn main() -> io::Result<()> {
    for (kind, sockets) in [("pipes", false), ("socket pairs", true)] {
        compare(&format!("round trip of 200 bytes, {kind}"), |wrapped| {
            let mut server = Echo::start(wrapped, sockets)?;
            server.round_trip()?;
            let begin = Instant::now();
            for _ in 0..ROUND_TRIPS {
                server.round_trip()?;
            }
            let each = begin.elapsed() / ROUND_TRIPS as u32;
            server.end()?;
            Ok(each)
        })?;
    }
    compare("start to first reply", |wrapped| {
        let begin = Instant::now();
        let mut server = Echo::start(wrapped, true)?;
        server.round_trip()?;
        let first = begin.elapsed();
        server.end()?;
        Ok(first)
    })?;
    compare("start to first reply, and the end", |wrapped| {
        let begin = Instant::now();
        let mut server = Echo::start(wrapped, true)?;
        server.round_trip()?;
        server.end()?;
        Ok(begin.elapsed())
    })?;
    idle()
}
