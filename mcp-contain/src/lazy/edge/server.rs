//! One server: an `mcp-contain run` with this process as its host.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use mcp_guardian::sys::{ProcessState, see};
use mcp_tree::inventory;
use nix::libc::{SIGKILL, SIGTERM};

use super::stream::{Buffer, Lines, Stream};
use crate::lazy::decision::events::Work;
use crate::sys;

const PROGRAM: &str = "/proc/self/exe";

/// The exit code of a shim that could not start its server or has no proof of its end.
pub(super) const UNPROVEN: i32 = 125;

const COMPANION_LIMIT: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(in crate::lazy) struct Shim {
    pub(in crate::lazy) words: Vec<OsString>,
    pub(in crate::lazy) may_be_accompanied: bool,
    pub(in crate::lazy) path: Option<OsString>,
}

/// A server that runs, or has ended with unread output.
#[derive(Debug)]
pub(super) struct Server {
    shim: Child,
    may_be_accompanied: bool,
    pub(super) input: Option<Stream>,
    pub(super) to_it: Buffer,
    /// Number of bytes written to its input, and of those that it has read at the last check.
    written: u64,
    read: u64,
    /// Its input is closed once everything is written.
    pub(super) is_closing: bool,
    is_closed: bool,
    pub(super) output: Option<Stream>,
    pub(super) from_it: Lines,
    pub(super) ended: Option<ExitStatus>,
    /// Its output has ended: no process that could write to it is left.
    pub(super) is_silent: bool,
    /// Deadline for the end of output after the shim's exit: a guardian may be at work.
    pub(super) lingers: Option<Duration>,
    pub(super) is_muted: bool,
    /// The time and signal of its forced end after its input was closed. A shim acts earlier.
    pub(super) overdue: Option<(Duration, i32)>,
}

impl Server {
    /// Starts a server in its own process group, so that signals to the host's group reach it only
    /// once, from here. It starts with the blocked signals of this process.
    pub(super) fn start(shim: &Shim) -> io::Result<Self> {
        let (its_input, input) = io::pipe()?;
        let (output, its_output) = io::pipe()?;
        let mut command = Command::new(PROGRAM);
        command.arg0("mcp-contain").args(&shim.words);
        command.envs(shim.path.iter().map(|path| ("PATH", path)));
        command.stdin(its_input).stdout(its_output).process_group(0);
        Ok(Self {
            input: Some(Stream::pipe(input.into())?),
            output: Some(Stream::pipe(output.into())?),
            shim: command.spawn()?,
            may_be_accompanied: shim.may_be_accompanied,
            to_it: Buffer::default(),
            written: 0,
            read: 0,
            is_closing: false,
            is_closed: false,
            from_it: Lines::default(),
            ended: None,
            is_silent: false,
            lingers: None,
            is_muted: false,
            overdue: None,
        })
    }

    /// Checks whether its shim has exited. Its other processes must end by `until`.
    pub(super) fn check(&mut self, until: Duration) {
        if self.ended.is_none() {
            let ended = self.shim.try_wait();
            // If another waiter reaped it, it counts as killed, which proves nothing.
            self.ended = ended.unwrap_or(Some(ExitStatus::from_raw(SIGKILL)));
            self.lingers = self.ended.map(|_| until);
        }
    }

    /// Returns whether its end is proven. A killed shim proves nothing: something of the server, or
    /// its containers, may live although the output has ended.
    pub(super) fn is_proven(&self) -> bool {
        let code = self.ended.and_then(|status| status.code());
        let was_killed = self.ended.and_then(|status| status.signal()) == Some(SIGKILL);
        self.is_silent && code != Some(UNPROVEN) && !was_killed
    }

    /// Signals its shim unless that was reaped: until then its pid is reserved.
    pub(super) fn signal(&self, number: i32) {
        if self.ended.is_none() {
            sys::send(self.shim.id(), number);
        }
    }

    pub(super) fn write(&mut self) -> io::Result<()> {
        if let Some(input) = &mut self.input {
            let len = input.write(self.to_it.bytes())?;
            self.to_it.consume(len);
            self.written += len as u64;
        }
        Ok(())
    }

    pub(super) fn has_read(&mut self) -> bool {
        let unread = self.input.as_ref().map(Stream::unread);
        let read = unread.map_or(self.read, |unread| self.written.saturating_sub(unread));
        std::mem::replace(&mut self.read, read) < read
    }

    /// Returns its work; `None` if that cannot be found out, or it is stopped.
    pub(super) fn work(&self) -> Option<Work> {
        let unread = self.input.as_ref()?.unread();
        let servers = inventory::look().ok()?.servers;
        let own = servers.iter().find(|it| it.host.pid == self.shim.id())?;
        let mut all = own.processes.iter().map(|it| see(it.pid));
        let is_live = all.all(|it| it.is_some_and(|it| it.state == ProcessState::Live));
        let read = self.written.saturating_sub(unread);
        is_live.then(|| (read, unread, own.cpu()))
    }

    pub(super) fn close(&mut self, now: Duration, grace: Duration) {
        self.to_it.clear();
        if !std::mem::replace(&mut self.is_closed, true) {
            let wait = match self.input.take() {
                Some(_) => grace
                    .saturating_mul(2)
                    .saturating_add(Duration::from_secs(1)),
                // It has closed it, so its shim sees no end of it.
                None => grace,
            };
            self.overdue = Some((now.saturating_add(wait), SIGTERM));
        }
    }

    /// Ends it by force, if due. A shim that waits for its companion ignores SIGTERM, and is killed
    /// only after it should have given up.
    pub(super) fn force(&mut self, now: Duration, grace: Duration) {
        let Some((_, signal)) = self.overdue.filter(|(at, _)| *at <= now) else {
            return;
        };
        self.signal(signal);
        let companion = match self.may_be_accompanied {
            true => grace.saturating_add(COMPANION_LIMIT),
            false => Duration::ZERO,
        };
        let forced = now
            .saturating_add(grace)
            .saturating_add(Duration::from_secs(4))
            .saturating_add(companion);
        self.overdue = (signal == SIGTERM).then_some((forced, SIGKILL));
    }

    pub(super) fn is_gone(&self) -> bool {
        self.ended.is_some() && self.output.is_none() && self.from_it.buffer.is_empty()
    }
}

/// The exit code of a shim for a server that died of SIGKILL.
const KILLED: i32 = 128 + SIGKILL;

pub(super) fn signal_of(status: ExitStatus) -> Option<i32> {
    let killed = (status.code() == Some(KILLED)).then_some(SIGKILL);
    status.signal().or(killed)
}

pub(super) fn describe(status: ExitStatus) -> String {
    match (signal_of(status), status.code()) {
        (Some(signal), _) => format!("the server was ended by signal {signal}"),
        (None, code) => format!("the server ended (exit code {})", code.unwrap_or_default()),
    }
}
