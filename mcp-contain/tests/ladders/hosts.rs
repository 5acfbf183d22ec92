//! The columns: what hosts do to end a server.

use std::fs;
use std::io::{Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mcp_lifecycle_conformance::alive::{AliveConn, AliveListener};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::servers::{self, Server};

/// The time after which what a merciless host has left is reaped.
const WITHOUT_HELP: Duration = Duration::from_secs(3);

pub(crate) const WRAPPER: &str = env!("CARGO_BIN_EXE_mcp-contain");

/// The time after which a step that never takes long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The end of the server's input.
    Close,
    /// To the process that the host has started.
    Signal(Signal),
    /// To its process group.
    Group(Signal),
    /// SIGKILL to it and all below, by parents, the youngest first.
    Tree,
}

/// A kind of host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: &'static str,
    /// Socket pairs, as Node and Bun give them; otherwise pipes.
    sockets: bool,
    /// Its steps, and the milliseconds that the server then has.
    steps: &'static [(Step, u64)],
    /// It ends the server's group by SIGINT at first.
    interrupts: bool,
    /// It leaves nobody the time to be asked.
    merciless: bool,
    /// `true` if its steps are done to the host of the server: it is killed itself.
    dies: bool,
}

const POLITE: Host = Host {
    name: "",
    sockets: false,
    steps: &[],
    interrupts: false,
    merciless: false,
    dies: false,
};

impl Host {
    pub(crate) const ALL: &[Self] = &[
        Self {
            name: "claude-code",
            sockets: true,
            steps: &[
                (Step::Signal(Signal::SIGINT), 100),
                (Step::Signal(Signal::SIGTERM), 400),
                (Step::Signal(Signal::SIGKILL), 0),
            ],
            interrupts: true,
            ..POLITE
        },
        Self {
            name: "typescript-sdk",
            sockets: true,
            steps: &[
                (Step::Close, 2_000),
                (Step::Signal(Signal::SIGTERM), 2_000),
                (Step::Signal(Signal::SIGKILL), 0),
            ],
            ..POLITE
        },
        Self {
            name: "python-sdk",
            steps: &[
                (Step::Close, 2_000),
                (Step::Group(Signal::SIGTERM), 2_000),
                (Step::Group(Signal::SIGKILL), 0),
            ],
            ..POLITE
        },
        Self {
            name: "vscode",
            sockets: true,
            steps: &[
                (Step::Close, 10_000),
                (Step::Signal(Signal::SIGTERM), 10_000),
                (Step::Tree, 0),
            ],
            ..POLITE
        },
        Self {
            name: "vscode-second-stop",
            sockets: true,
            steps: &[(Step::Close, 0), (Step::Tree, 0)],
            merciless: true,
            ..POLITE
        },
        Self {
            name: "codex",
            steps: &[
                (Step::Group(Signal::SIGTERM), 2_000),
                (Step::Group(Signal::SIGKILL), 0),
            ],
            ..POLITE
        },
        Self {
            name: "rmcp",
            steps: &[
                (Step::Close, 3_000),
                (Step::Signal(Signal::SIGTERM), 3_000),
                (Step::Signal(Signal::SIGKILL), 0),
            ],
            ..POLITE
        },
        Self {
            name: "wrapper-killed",
            sockets: true,
            steps: &[(Step::Signal(Signal::SIGKILL), 0)],
            ..POLITE
        },
        Self {
            name: "host-killed",
            steps: &[(Step::Signal(Signal::SIGKILL), 0)],
            dies: true,
            ..POLITE
        },
    ];

    /// Starts this server through the wrapper with these options, and ends it as this host does.
    pub(crate) fn ends(&self, options: &[&str], server: &Server) -> Result<(), String> {
        let wrapper = [&[WRAPPER], options].concat();
        let roles = self.ends_through(&wrapper, server, DEADLINE)?;
        let asked = server.asked.iter().filter(|_| !self.interrupts);
        let asked = asked.chain(server.always_asked);
        // A stopped process group that loses its parent gets SIGHUP of the kernel, before any SIGTERM.
        let is_hung_up = self.name == "wrapper-killed"
            && server.name == "sigstop"
            && options.contains(&"--group");
        let is_asked = !self.merciless && !is_hung_up;
        all_were_asked(&roles, asked.filter(|_| is_asked))
    }

    /// The same with another command in the wrapper's place, and so long for every process to be
    /// dead. None of them has to be asked.
    pub(crate) fn ends_through(
        &self,
        wrapper: &[&str],
        server: &Server,
        limit: Duration,
    ) -> Result<Vec<(&'static str, AliveConn)>, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let listener = AliveListener::unix().map_err(|error| failed(&error))?;
        let mut held = self.start(wrapper, server, &listener.address());
        let roles = hellos(&listener, server)?;
        if let Some(event) = server.tells {
            let told = roles[0].1.event(event, DEADLINE);
            listener.block_on(told).map_err(|error| failed(&error))?;
        }
        for &(step, patience) in self.steps {
            held.take(step);
            if held.ends_within(Duration::from_millis(patience)) {
                break;
            }
        }
        // Hosts that kill close their streams at last; one that is killed has no choice.
        held.stdin = None;
        let dead = |limit| listener.block_on(listener.expect_all_dead(limit));
        if self.merciless && dead(WITHOUT_HELP).is_err() {
            // Shim and guardian were killed at once. Who was forked in between is in the cgroup
            // or carries the mark, by which anybody finds it.
            let reap = Command::new(WRAPPER).arg("reap").output();
            let reap = reap.map_err(|error| failed(&error))?;
            eprintln!("reaped: {}", String::from_utf8_lossy(&reap.stdout));
        }
        dead(limit).map_err(|error| failed(&error))?;
        if !held.ends_within(DEADLINE) {
            return Err("the wrapper does not end".to_owned());
        }
        held.streams_end()?;
        Ok(roles)
    }

    fn start(&self, wrapper: &[&str], server: &Server, observer: &str) -> Held {
        let this = std::env::current_exe().expect("this program");
        let mut command = Command::new(if self.dies {
            this.as_os_str()
        } else {
            wrapper[0].as_ref()
        });
        if self.dies {
            command.args(["host", wrapper[0]]);
        }
        command.args(&wrapper[1..]).args(server.command(observer));
        command.process_group(0);
        let ((stdin, theirs), stdout, stderr) = match self.sockets {
            true => {
                let pair = || {
                    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
                    (OwnedFd::from(ours), OwnedFd::from(theirs))
                };
                (pair(), pair(), pair())
            }
            false => {
                let pipe = || std::io::pipe().expect("a pipe");
                let output = || {
                    let (reader, writer) = pipe();
                    (OwnedFd::from(reader), OwnedFd::from(writer))
                };
                let (reader, writer) = pipe();
                (
                    (OwnedFd::from(writer), OwnedFd::from(reader)),
                    output(),
                    output(),
                )
            }
        };
        command.stdin(theirs).stdout(stdout.1).stderr(stderr.1);
        let child = command.spawn().expect("spawn");
        // The server's ends are in there.
        drop(command);
        let mut stdin = fs::File::from(stdin);
        if !self.dies {
            // Who is not there any more needs no words.
            let _ = stdin.write_all(servers::WORDS.as_bytes());
        }
        Held {
            child,
            stdin: Some(stdin),
            ends: [stdout.0, stderr.0].map(drain),
            is_over: false,
        }
    }
}

/// Everybody of a server, once they are there.
pub(crate) fn hellos(
    listener: &AliveListener,
    server: &Server,
) -> Result<Vec<(&'static str, AliveConn)>, String> {
    let hello = |role: &&'static str| {
        let conn = listener.block_on(listener.accept(role, DEADLINE));
        conn.map(|conn| (*role, conn))
            .map_err(|error| error.to_string())
    };
    server.roles.iter().map(hello).collect()
}

/// Makes sure that each of these had a SIGTERM.
pub(crate) fn all_were_asked<'a>(
    roles: &[(&str, AliveConn)],
    asked: impl Iterator<Item = &'a &'a str>,
) -> Result<(), String> {
    for role in asked {
        let found = roles.iter().find(|(known, _)| known == role);
        let events = found.map(|(_, conn)| conn.events()).unwrap_or_default();
        if !events.iter().any(|event| event.starts_with("sigterm")) {
            return Err(format!("{role} was killed and not asked: {events:?}"));
        }
    }
    Ok(())
}

/// Reads to the end, and says when that has come.
fn drain(stream: OwnedFd) -> mpsc::Receiver<()> {
    let (end, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = fs::File::from(stream);
        let mut buffer = vec![0; 1 << 16];
        while let Ok(1..) = stream.read(&mut buffer) {}
        let _ = end.send(());
    });
    ended
}

/// A server, as far as its host holds it.
struct Held {
    child: Child,
    stdin: Option<fs::File>,
    ends: [mpsc::Receiver<()>; 2],
    is_over: bool,
}

impl Held {
    fn take(&mut self, step: Step) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        // It is not reaped, so that the number is its own.
        match step {
            Step::Close => self.stdin = None,
            Step::Signal(signal) => kill(pid, signal).expect("kill"),
            Step::Group(signal) => killpg(pid, signal).expect("killpg"),
            Step::Tree => kill_tree(self.child.id()),
        }
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            self.is_over = self.is_over || self.child.try_wait().expect("wait").is_some();
            if self.is_over || Instant::now() >= end {
                return self.is_over;
            }
            thread::sleep(Duration::from_millis(2).min(limit));
        }
    }

    /// Hosts wait for the end of both streams.
    fn streams_end(&self) -> Result<(), String> {
        let ends = self.ends.iter().map(|end| end.recv_timeout(DEADLINE));
        ends.collect::<Result<(), _>>()
            .map_err(|_| "somebody holds the server's output".to_owned())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// As VS Code's script does: lists the children, goes down into each, and then kills.
fn kill_tree(pid: u32) {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    let children = list.split_whitespace().filter_map(|word| word.parse().ok());
    children.for_each(kill_tree);
    let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
}
