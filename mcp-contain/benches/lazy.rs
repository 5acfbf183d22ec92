//! The cost of a relay, against the same server without it, in turns within one run: `cargo bench -p mcp-contain --bench lazy`.
//!
//! Round trips of a small and of a large request, the time from the start to the answer of `initialize` from the cache, and the memory of a relay whose
//! server is asleep. Nothing asserts on time.

use std::fs;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use mcp_lifecycle_measure::{Figure, Run};

const TURNS: usize = 15;

/// A server that answers each request with its own parameters.
fn serve() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), BufWriter::new(io::stdout().lock()));
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let find = |what: &[u8]| line.windows(what.len()).position(|here| here == what);
        if let (Some(id), Some(end), Some(params)) =
            (find(b"\"id\":"), find(b",\"method\""), find(b"\"params\":"))
        {
            output.write_all(b"{\"jsonrpc\":\"2.0\",")?;
            output.write_all(line.get(id..end).unwrap_or_default())?;
            output.write_all(b",\"result\":")?;
            output.write_all(line.get(params + 9..).unwrap_or_default())?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

/// A server, and the host's ends of its streams.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    answer: Vec<u8>,
}

impl Server {
    fn start(is_relayed: bool, home: &Path) -> io::Result<Self> {
        let this = std::env::current_exe()?;
        let mut command = Command::new(if is_relayed {
            Path::new(env!("CARGO_BIN_EXE_mcp-contain"))
        } else {
            &this
        });
        if is_relayed {
            command.arg("--lazy").arg(&this);
        }
        let command = command
            .arg("serve")
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stdout = BufReader::with_capacity(1 << 16, stdout);
        Ok(Self {
            child,
            stdin,
            stdout,
            answer: Vec::new(),
        })
    }

    /// One request, and its answer.
    fn round_trip(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(stdin) = &mut self.stdin {
            stdin.write_all(line)?;
        }
        self.answer.clear();
        self.stdout.read_until(b'\n', &mut self.answer).map(drop)
    }

    fn end(mut self) -> io::Result<()> {
        self.stdin = None;
        self.child.wait().map(drop)
    }
}

fn request(id: usize, method: &str, params: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
        .into_bytes()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The medians of the relayed and of the bare server in seconds, measured in turns.
fn compare(mut measure: impl FnMut(bool) -> io::Result<Duration>) -> io::Result<(f64, f64)> {
    let (mut bare, mut relayed) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        bare.push(measure(false)?);
        relayed.push(measure(true)?);
    }
    Ok((median(relayed).as_secs_f64(), median(bare).as_secs_f64()))
}

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    let mut run = Run::begin("lazy");
    let home = tempfile::tempdir()?;
    for (size, count) in [(140, 2000), (1 << 20, 20)] {
        let params = format!("{{\"text\":\"{}\"}}", "x".repeat(size));
        let line = request(7, "tools/call", &params);
        let (relayed, bare) = compare(|is_relayed| {
            let mut server = Server::start(is_relayed, home.path())?;
            server.round_trip(&line)?;
            let begin = Instant::now();
            for _ in 0..count {
                server.round_trip(&line)?;
            }
            let each = begin.elapsed() / count;
            server.end()?;
            Ok(each)
        })?;
        run.figure(if size >= 1 << 20 {
            // A MiB there, and one back.
            let name = "messages of 1 MiB, both directions";
            Figure::ours(name, 2.0 / relayed, "MiB/s").at_least(400.0)
        } else {
            let name = "round trip of 200 B, beyond the bare server";
            let bare = ("bare", bare * 1e6);
            Figure::beyond(name, relayed * 1e6, bare, "us").at_most(25.0)
        });
    }
    let initialize = request(
        0,
        "initialize",
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}"#,
    );
    let mut server = Server::start(true, home.path())?;
    server.round_trip(&initialize)?;
    server.end()?;
    let (relayed, bare) = compare(|is_relayed| {
        let begin = Instant::now();
        let mut server = Server::start(is_relayed, home.path())?;
        server.round_trip(&initialize)?;
        let first = begin.elapsed();
        server.end()?;
        Ok(first)
    })?;
    // The bar is for the time itself; the bare server's is beside it.
    let name = "start to the answer of initialize from the cache";
    run.figure(Figure::ours(name, relayed * 1e3, "ms").at_most(3.0));
    run.figure(Figure::ours("the same, bare", bare * 1e3, "ms"));
    let mut server = Server::start(true, home.path())?;
    server.round_trip(&initialize)?;
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", server.child.id()))?;
    let private = text
        .lines()
        .filter(|line| line.starts_with("Private_Dirty"));
    let private: u64 = private
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    let name = "memory of a relay whose server is asleep, private and written";
    run.figure(Figure::ours(name, private as f64, "KiB"));
    server.end()?;
    run.finish();
    Ok(())
}
