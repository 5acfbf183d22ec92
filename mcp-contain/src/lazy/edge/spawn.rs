//! Start of a process that has none of this one's signals blocked, while they stay blocked here.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitOptions, waitpid};

/// The program that is started: this one.
const PROGRAM: &str = "/proc/self/exe";

/// How this program starts a server: its words, and the `PATH` that they get, if it is not this process's own.
#[derive(Debug)]
pub(in crate::lazy) struct Shim {
    pub(in crate::lazy) words: Vec<OsString>,
    /// It may wait for a companion that ends containers.
    pub(in crate::lazy) may_be_accompanied: bool,
    pub(in crate::lazy) path: Option<OsString>,
}

impl Shim {
    /// Starts it with these streams, in a process group of its own: signals of the host's group reach it once, from here.
    pub(super) fn spawn(
        &self,
        stdin: impl AsFd,
        stdout: impl AsFd,
        blocked: &SigSet,
    ) -> io::Result<Process> {
        let mut streams = PosixSpawnFileActions::init()?;
        streams.add_dup2(stdin.as_fd().as_raw_fd(), 0)?;
        streams.add_dup2(stdout.as_fd().as_raw_fd(), 1)?;
        let mut how = PosixSpawnAttr::init()?;
        how.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
                | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
                | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
        )?;
        how.set_pgroup(Pid::from_raw(0))?;
        let mut mask = SigSet::thread_get_mask()?;
        for signal in blocked {
            mask.remove(signal);
        }
        how.set_sigmask(&mask)?;
        // Rust ignores it in this process.
        how.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
        let name = OsString::from("mcp-contain");
        let words = std::iter::once(&name).chain(&self.words).cloned();
        let words = words.map(c_string).collect::<io::Result<Vec<_>>>()?;
        let env = self.env()?;
        let pid = posix_spawn(PROGRAM, &streams, &how, &words, &env)?;
        Ok(Process { pid, ended: None })
    }

    fn env(&self) -> io::Result<Vec<CString>> {
        let mut env: BTreeMap<_, _> = env::vars_os().collect();
        if let Some(path) = &self.path {
            env.insert("PATH".into(), path.clone());
        }
        let joined = env.into_iter().map(|(mut name, value)| {
            name.push(OsStr::new("="));
            name.push(value);
            c_string(name)
        });
        joined.collect()
    }
}

fn c_string(text: OsString) -> io::Result<CString> {
    Ok(CString::new(text.into_vec())?)
}

/// A child of this process. It is not ended when this value is dropped.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    ended: Option<ExitStatus>,
}

impl Process {
    /// How it has ended, if it has. It is reaped then. One that somebody else has reaped has ended, and counts as killed: it proves nothing.
    pub(super) fn try_wait(&mut self) -> Option<ExitStatus> {
        while self.ended.is_none() {
            let pid = rustix::process::Pid::from_raw(self.pid.as_raw());
            match waitpid(pid, WaitOptions::NOHANG) {
                Ok(Some((_, status))) => {
                    self.ended = Some(ExitStatus::from_raw(status.as_raw()));
                }
                Err(Errno::CHILD) => {
                    self.ended = Some(ExitStatus::from_raw(Signal::SIGKILL as i32))
                }
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        self.ended
    }

    /// Sends it a signal, if it was not reaped: its number is its own until then.
    pub(super) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = nix::sys::signal::kill(self.pid, signal);
        }
    }
}
