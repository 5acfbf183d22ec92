//! A host: starts a command with or without the wrapper in front, over pipes or socket pairs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use nix::libc::SYS_ppoll;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

/// The time after which a step that never takes long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Time from a shell's word to its next command: a few microseconds, and longer on a busy machine.
const TO_READ: Duration = Duration::from_millis(30);

/// The kinds of streams that hosts give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Python, Rust, Go.
    Pipes,
    /// Node, Bun, Electron.
    Sockets,
}

pub(crate) const BOTH: [Streams; 2] = [Streams::Pipes, Streams::Sockets];

/// A server, as its host holds it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) stdin: Option<File>,
    pub(crate) stdout: File,
    pub(crate) stderr: File,
}

/// This crate's program with these words.
pub(crate) fn wrapped(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-contain"));
    command.args(crate::LEVEL).args(words);
    command
}

/// The same words without the wrapper.
pub(crate) fn bare(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

impl Server {
    pub(crate) fn start(command: &mut Command, streams: Streams) -> Self {
        let [stdin, stdout, stderr] = [true, false, false].map(|input| streams.pair(input));
        // As a host does: what runs these tests may itself have been started to ignore SIGINT.
        let default = || {
            for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
                // SAFETY: no handler of this process is replaced that anybody relies on: a program follows.
                unsafe { signal(number, SigHandler::SigDfl) }?;
            }
            Ok(())
        };
        // SAFETY: all that it calls is `signal`, which is safe after a fork.
        unsafe { command.pre_exec(default) };
        command
            .stdin(Stdio::from(stdin.1))
            .stdout(Stdio::from(stdout.1))
            .stderr(Stdio::from(stderr.1));
        let child = command.spawn().expect("spawn");
        // Or this process would hold the server's ends.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self {
            child,
            stdin: Some(File::from(stdin.0)),
            stdout: File::from(stdout.0),
            stderr: File::from(stderr.0),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("kill");
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// How it ends, in time.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = in_time(move || {
            let status = self.child.wait().expect("wait");
            let mut said = String::new();
            self.stderr.read_to_string(&mut said).expect("text");
            (status, said)
        });
        drop(self.stdin);
        status
    }
}

/// The number of `poll`, which some machines do not have.
#[cfg(target_os = "linux")]
const POLL: Option<i64> = if cfg!(target_arch = "x86_64") {
    Some(7)
} else {
    None
};

/// Waits until a process waits without a time at which it would wake up.
#[cfg(target_os = "linux")]
pub(crate) fn comes_to_rest(pid: u32) {
    let rests = || {
        let text = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
        let words: Vec<_> = text.split_whitespace().collect();
        let is = |number: i64| words.first() == Some(&&*number.to_string());
        let time = words.get(3).copied().unwrap_or_default();
        (is(SYS_ppoll) && time == "0x0") || (POLL.is_some_and(is) && time.ends_with("ffffffff"))
    };
    let end = Instant::now() + DEADLINE;
    while !rests() {
        assert!(Instant::now() < end, "{pid} does not come to rest");
        thread::yield_now();
    }
}

/// Does it on another thread, which has a deadline.
pub(crate) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    within(DEADLINE, work)
}

/// Does it on another thread, which has this time.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    is_done.recv_timeout(limit).expect("in time")
}

impl Streams {
    /// The host's end and the server's.
    fn pair(self, input: bool) -> (OwnedFd, OwnedFd) {
        match self {
            Self::Sockets => {
                let (ours, theirs) = UnixStream::pair().expect("a socket pair");
                (ours.into(), theirs.into())
            }
            Self::Pipes => {
                let (reader, writer) = io::pipe().expect("a pipe");
                match input {
                    true => (writer.into(), reader.into()),
                    false => (reader.into(), writer.into()),
                }
            }
        }
    }
}

/// A FIFO that every process of a script holds open for writing: end of file says that none is left.
#[derive(Debug)]
pub(crate) struct Alive {
    directory: tempfile::TempDir,
    reader: File,
}

impl Alive {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        mkfifo(&directory.path().join("alive"), Mode::S_IRWXU).expect("mkfifo");
        let reader = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(directory.path().join("alive"))
            .expect("open");
        Self { directory, reader }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A script that holds the FIFO as descriptor 9 and can sleep on descriptor 8 without a child.
    pub(crate) fn script(&self, script: &str) -> String {
        let directory = self.directory.path().display();
        format!("cd '{directory}'; exec 9>alive; F=fifo.$$; mkfifo $F; exec 8<>$F; rm $F\n{script}")
    }

    /// Waits for so many bytes.
    pub(crate) fn ready(&mut self, count: usize) {
        let end = Instant::now() + DEADLINE;
        let mut seen = 0;
        while seen < count {
            assert!(Instant::now() < end, "{seen} of {count}");
            match self.reader.read(&mut [0; 64]) {
                Ok(len @ 1..) => seen += len,
                // No writer yet, which nothing can wait for.
                Ok(0) | Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        // A shell runs no trap for a signal that comes just before its `read`, and nothing tells that it is in there.
        thread::sleep(TO_READ);
    }

    /// Waits until nobody holds it.
    pub(crate) fn nobody_is_left(&mut self) {
        let end = Instant::now() + DEADLINE;
        loop {
            match self.reader.read(&mut [0; 64]) {
                Ok(0) => return,
                Ok(_) => {}
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
            assert!(Instant::now() < end, "somebody is left");
        }
    }

    pub(crate) fn somebody_is_left(&mut self) -> bool {
        loop {
            match self.reader.read(&mut [0; 64]) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
    }
}
