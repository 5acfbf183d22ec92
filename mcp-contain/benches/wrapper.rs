//! Cost of the wrapper against the same server without it, in turns within one run: `cargo bench -p mcp-contain`.
//!
//! Round trips of 200 bytes, the time from the start to the first reply, and what an idle wrapped server holds: private memory of shim and
//! guardian, and how often they were woken up. `MCP_BENCH_CONTAIN` names the packaged program, which starts faster. Nothing asserts on time.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use mcp_lifecycle_measure::{Figure, Run};

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
                let packaged = std::env::var_os("MCP_BENCH_CONTAIN");
                let built = || env!("CARGO_BIN_EXE_mcp-contain").into();
                let mut command = Command::new(packaged.unwrap_or_else(built));
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

/// The medians of the wrapped and of the bare server in seconds, measured in turns.
fn compare(mut measure: impl FnMut(bool) -> io::Result<Duration>) -> io::Result<(f64, f64)> {
    let (mut bare, mut wrapped) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        bare.push(measure(false)?);
        wrapped.push(measure(true)?);
    }
    let (bare, wrapped) = (median(bare), median(wrapped));
    Ok((wrapped.as_secs_f64(), bare.as_secs_f64()))
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

fn idle(run: &mut Run) -> io::Result<()> {
    const FOR: Duration = Duration::from_secs(5);
    let mut server = Echo::start(true, true)?;
    server.round_trip()?;
    // The wrapper becomes the shim a moment after the server runs.
    std::thread::sleep(Duration::from_secs(1));
    let shim = server.child.id();
    let children = fs::read_to_string(format!("/proc/{shim}/task/{shim}/children"))?;
    let guardian: u32 = children.trim().parse().map_err(io::Error::other)?;
    let (mut private, mut wake_ups) = (0, 0);
    for pid in [shim, guardian] {
        let before = held(pid)?.1;
        std::thread::sleep(FOR);
        let (memory, after) = held(pid)?;
        private += memory;
        wake_ups += after - before;
    }
    let figure = Figure::ours("private memory, shim and guardian", private as f64, "KiB");
    run.figure(figure.at_most(512.0));
    let name = "wake-ups of both in 5 s";
    run.figure(Figure::ours(name, wake_ups as f64, "").at_most(0.0));
    server.end()
}

fn main() -> io::Result<()> {
    let mut run = Run::begin("wrapper");
    for (kind, sockets) in [("pipes", false), ("socket pairs", true)] {
        let (wrapped, bare) = compare(|wrapped| {
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
        let name = format!("round trip of 200 B, {kind}");
        let figure = Figure::ratio(name, wrapped * 1e6, ("bare", bare * 1e6), "us");
        run.figure(figure.at_most(1.05));
    }
    let (wrapped, bare) = compare(|wrapped| {
        let begin = Instant::now();
        let mut server = Echo::start(wrapped, true)?;
        server.round_trip()?;
        let first = begin.elapsed();
        server.end()?;
        Ok(first)
    })?;
    let bare = ("bare", bare * 1e3);
    let name = "start to first reply, beyond the bare server";
    run.figure(Figure::beyond(name, wrapped * 1e3, bare, "ms").at_most(1.0));
    let (wrapped, bare) = compare(|wrapped| {
        let begin = Instant::now();
        let mut server = Echo::start(wrapped, true)?;
        server.round_trip()?;
        server.end()?;
        Ok(begin.elapsed())
    })?;
    let bare = ("bare", bare * 1e3);
    let name = "start to first reply, and the end, beyond the bare server";
    run.figure(Figure::beyond(name, wrapped * 1e3, bare, "ms"));
    idle(&mut run)?;
    run.finish();
    Ok(())
}
