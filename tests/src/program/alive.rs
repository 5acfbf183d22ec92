//! The connection that proves life and death.
//!
//! Lines from the fixture: `hello <role> <pid>` once, `pong`, and
//! `event <text>`: `event eof`, `event sigterm`, `event blocking <id>`,
//! `event cancelled <id>`, `event progress <n>`, ...
//! Lines from the observer: `ping`, answered by every role that runs code of
//! ours, and `step`, which releases one step of whatever the fixture would
//! otherwise have to pace by sleeping.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use std::{fmt, process, thread};
#[cfg(unix)]
use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    os::unix::net::UnixStream,
};

#[cfg(unix)]
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::program::{exit, sys};

#[cfg(unix)]
type Connection = File;
/// A socket is no file here. Only TCP is known: Windows has Unix sockets, and the standard library none.
#[cfg(windows)]
type Connection = TcpStream;

/// Where the observer listens.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Unix(PathBuf),
    /// Numeric only: a static binary has no name service.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => match address.parse() {
                Ok(address) => Ok(Self::Tcp(address)),
                Err(_) => Err(format!("{address} is not a numeric HOST:PORT")),
            },
            _ => Err(format!("--alive takes unix:PATH or tcp:HOST:PORT: {text}")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// One process's connection to the observer.
#[derive(Debug, Clone)]
pub(crate) struct Alive {
    stream: Arc<Connection>,
    steps: Arc<Steps>,
}

/// Steps that the observer has released and nobody has taken yet.
#[derive(Debug, Default)]
struct Steps {
    released: Mutex<u32>,
    changed: Condvar,
}

impl Alive {
    /// Connects, lets every later child inherit the connection, says hello.
    pub(crate) fn connect(address: &Address, role: &str) -> Self {
        let stream = match reach(address) {
            Ok(stream) => stream,
            Err(error) => exit::no_observer(&format!("cannot reach {address}: {error}")),
        };
        #[cfg(unix)]
        sys::inherit_on_exec(&stream);
        let alive = Self {
            stream: Arc::new(stream),
            steps: Arc::default(),
        };
        // First: whoever has heard the hello may send SIGTERM.
        #[cfg(unix)]
        sys::report_sigterm_to(alive.stream.as_raw_fd());
        #[cfg(windows)]
        sys::report_sigterm_to(&alive.stream);
        alive.line(&format!("hello {role} {}\n", process::id()));
        alive
    }

    /// Tells the observer what happened.
    pub(crate) fn event(&self, text: &str) {
        self.line(&format!("event {text}\n"));
    }

    /// Takes one step that the observer releases; at most `limit` long.
    pub(crate) fn step(&self, limit: Option<Duration>) {
        let Ok(mut released) = self.steps.released.lock() else {
            return;
        };
        let far = Duration::from_secs(u32::MAX.into());
        let nothing_released = |released: &mut u32| *released == 0;
        if let Ok((guard, _)) =
            self.steps
                .changed
                .wait_timeout_while(released, limit.unwrap_or(far), nothing_released)
        {
            released = guard;
            *released = released.saturating_sub(1);
        }
    }

    /// Answers the observer from a thread, for a process that has other work.
    ///
    /// Nothing may fork after this.
    pub(crate) fn answer_in_background(&self) {
        let alive = self.clone();
        thread::spawn(move || alive.answer());
    }

    /// Answers the observer until it is gone, then exits.
    pub(crate) fn answer(&self) -> ! {
        let mut lines = BufReader::new(&*self.stream);
        let mut line = String::new();
        while matches!(lines.read_line(&mut line), Ok(1..)) {
            match line.trim_end() {
                "ping" => self.line("pong\n"),
                "step" => self.release(),
                _ => {}
            }
            line.clear();
        }
        // Nobody watches any more: a test that failed must not leak us.
        process::exit(0)
    }

    /// Answers the observer for `time`, then returns; exits when it is gone.
    #[cfg(unix)]
    pub(crate) fn answer_for(&self, time: Duration) {
        let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        if matches!(poll(&mut fds, timeout), Ok(1..)) {
            let mut lines = [0; 64];
            match (&*self.stream).read(&mut lines) {
                Ok(0) => process::exit(0),
                Ok(_) => self.line("pong\n"),
                Err(_) => {}
            }
        }
    }

    fn release(&self) {
        if let Ok(mut released) = self.steps.released.lock() {
            *released += 1;
            self.steps.changed.notify_all();
        }
    }

    /// One write per line, so that lines of several threads never mix.
    fn line(&self, text: &str) {
        // An observer that has gone is noticed by the reader.
        let _: io::Result<()> = (&*self.stream).write_all(text.as_bytes());
    }
}

#[cfg(unix)]
fn reach(address: &Address) -> io::Result<Connection> {
    let fd = match address {
        Address::Unix(path) => UnixStream::connect(path).map(OwnedFd::from),
        Address::Tcp(address) => TcpStream::connect(address).map(OwnedFd::from),
    };
    fd.map(File::from)
}

#[cfg(windows)]
fn reach(address: &Address) -> io::Result<Connection> {
    match address {
        Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        Address::Tcp(address) => TcpStream::connect(address),
    }
}

#[cfg(unix)]
impl AsFd for Alive {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
