//! `demo`: shows on real processes what a host leaves behind with and without this program.
//!
//! ```text
//! demo ── host (two ways to end) ── [mcp-contain] ── server ── helper, in a session of its own
//!   ▲                                                   │          │
//!   └──── end of their standard error: both are gone ───┴──────────┘
//! ```

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mcp_guardian::sys;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::setsid;
use serde_json::{Value, json};

use super::{ends_within, hold};
use crate::failure::Failure;
use crate::show::{out, units};

const LIFE: Duration = Duration::from_secs(600);

/// Grace that a host gives its server after the end of input, as in the SDKs.
const PATIENCE: Duration = Duration::from_secs(2);

/// A process that lives this long after its host was left behind.
const SETTLED: Duration = Duration::from_secs(1);

const LIMIT: Duration = Duration::from_secs(30);

/// The role of this process in the demonstration; all of it by default.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Run only the leaky server, to try it with a host of your own; it ends by itself after 10 minutes
    #[arg(long)]
    serve: bool,
    /// End when nothing reads standard error: the demonstration is over.
    #[arg(long, hide = true)]
    tied: bool,
    #[arg(long, hide = true)]
    helper: bool,
    #[arg(long, hide = true)]
    host: bool,
    #[arg(hide = true, requires = "host", trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Plays a role, or runs the whole demonstration, which fails if something survives the wrapper.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let done = match options {
        Options { host: true, .. } => host(&options.command),
        Options { serve: true, .. } => serve(options.tied),
        Options { helper: true, .. } => setsid()
            .map_err(io::Error::from)
            .map(|_| linger(options.tied)),
        _ => show(),
    };
    done.map(|()| ExitCode::SUCCESS)
        .map_err(|error| Failure::plain(format_args!("the demonstration failed: {error}")))
}

/// Plays a host: starts its server, and ends it like the SDKs when its own input ends.
fn host(command: &[OsString]) -> io::Result<()> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut server = Command::new(program);
    server
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut server = server.spawn()?;
    let mut input = server.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let output = server.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    writeln!(
        input,
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{}}}}"#
    )?;
    BufReader::new(output).read_line(&mut String::new())?;
    eprintln!("ready");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    drop(input);
    let held = hold(server.id())?;
    for signal in [sys::terminate_held, sys::kill_held] {
        if !ends_within(&held, PATIENCE) {
            signal(&held)?;
        }
    }
    server.wait().map(drop)
}

/// Plays a server that ignores the end of its input and has a helper outside its group and session.
fn serve(tied: bool) -> io::Result<()> {
    let mut helper = this(&["--helper"]);
    helper.args(tied.then_some("--tied")).stdin(Stdio::null());
    let mut helper = helper.stdout(Stdio::null()).spawn()?;
    eprintln!("helper {}\nserver {}", helper.id(), std::process::id());
    thread::spawn(answer);
    linger(tied);
    let _ = helper.kill();
    helper.wait().map(drop)
}

fn linger(tied: bool) {
    let error = io::stderr();
    let events = PollFlags::empty();
    let mut watched = [PollFd::new(error.as_fd(), events)];
    let watched = if tied { &mut watched[..] } else { &mut [] };
    let _ = poll(
        watched,
        PollTimeout::try_from(LIFE).unwrap_or(PollTimeout::MAX),
    );
}

fn this(words: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("mcp-contain").arg("demo").args(words);
    command
}

/// Answers requests until the input ends: each with everything that any of them asks for.
fn answer() {
    for line in io::stdin().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let version = message["params"]["protocolVersion"].as_str();
        let result = json!({
            "protocolVersion": version.unwrap_or("2025-11-25"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "leaky", "version": env!("CARGO_PKG_VERSION")},
            "tools": [{"name": "hello", "inputSchema": {"type": "object"}}],
            "content": [{"type": "text", "text": "hello"}],
        });
        if let Some(id) = message.get("id") {
            out::line(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        }
    }
}

struct Run {
    host: Child,
    parts: Vec<(String, OwnedFd)>,
    /// The stderr of all processes, which ends with the last of them.
    lines: BufReader<PipeReader>,
}

impl Run {
    fn start(is_contained: bool) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let program = std::env::current_exe()?.into_os_string();
        let mut host = this(&["--host", "--"]);
        if is_contained {
            host.arg(&program).args(["run", "--"]);
        }
        host.arg(&program).args(["demo", "--serve", "--tied"]);
        let host = host.stdin(Stdio::piped()).stderr(writer).spawn()?;
        let (parts, lines) = (Vec::new(), BufReader::new(reader));
        let mut run = Self { host, parts, lines };
        loop {
            let mut line = String::new();
            if run.lines.read_line(&mut line)? == 0 {
                return Err(io::Error::other("the server did not start"));
            }
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["ready"] => return Ok(run),
                ["server" | "helper", pid] => {
                    let held = hold(pid.parse().map_err(io::Error::other)?)?;
                    run.parts.push((line.trim().to_owned(), held));
                }
                // The reason that it did not start.
                _ => eprint!("{line}"),
            }
        }
    }

    fn end(mut self, killed: bool, limit: Duration) -> io::Result<String> {
        let started = Instant::now();
        match killed {
            true => self.host.kill()?,
            false => drop(self.host.stdin.take()),
        }
        self.host.wait()?;
        while ends_within(
            self.lines.get_ref(),
            limit.saturating_sub(started.elapsed()),
        ) {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                let time = units::time(started.elapsed());
                return Ok(format!("nothing is left ({time})"));
            }
            eprint!("{line}");
        }
        let alive = self
            .parts
            .iter()
            .filter(|(_, held)| !ends_within(held, Duration::ZERO));
        let alive: Vec<_> = alive.map(|(name, _)| &**name).collect();
        Ok(format!("SURVIVES: {}", alive.join(", ")))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.host.kill();
        let _ = self.host.wait();
        for (_, part) in &self.parts {
            let _ = sys::kill_held(part);
        }
    }
}

fn show() -> io::Result<()> {
    let run = |is_contained, killed| {
        let limit = if is_contained { LIMIT } else { SETTLED };
        thread::spawn(move || Run::start(is_contained)?.end(killed, limit))
    };
    let cases = [("host quits", false), ("host is killed", true)]
        .map(|(name, killed)| (name, run(false, killed), run(true, killed)));
    out::line("A server that stays when its input ends, and its helper in a session of its own:\n");
    out::line(format_args!(
        "{:16}{:40}with mcp-contain",
        "", "without mcp-contain"
    ));
    let result = |run: thread::JoinHandle<io::Result<String>>| {
        run.join()
            .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    };
    let mut is_contained = true;
    for (name, bare, contained) in cases {
        let (bare, contained) = (result(bare)?, result(contained)?);
        is_contained &= contained.starts_with("nothing");
        out::line(format_args!("{name:16}{bare:40}{contained}"));
    }
    out::line(
        "\nThe survivors have been ended. `mcp-contain wrap` puts mcp-contain in front of your servers.",
    );
    let survives = || io::Error::other("something survives behind mcp-contain");
    is_contained.then_some(()).ok_or_else(survives)
}
