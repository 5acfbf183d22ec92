//! One server: a `mcp-contain run` of which this process is the host.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use super::buffer::{Buffer, Lines};
use super::spawn::{Process, Shim};
use super::stream::Stream;

/// The exit code of a shim that could not start its server, or that has no proof of its end.
pub(super) const UNPROVEN: i32 = 125;

/// The time that a shim waits for its companion, beyond the grace.
const COMPANION_LIMIT: Duration = Duration::from_secs(15);

/// A server that runs, or that has ended and has something left to be read.
#[derive(Debug)]
pub(super) struct Server {
    shim: Process,
    may_be_accompanied: bool,
    /// None when it was closed.
    pub(super) input: Option<Stream>,
    pub(super) to_it: Buffer,
    /// The number of bytes that were written to its input, and that it has read of them when it was asked last.
    written: u64,
    read: u64,
    /// Its input is to be closed when everything is written.
    pub(super) is_closing: bool,
    /// None at its end.
    pub(super) output: Option<Stream>,
    pub(super) from_it: Lines,
    pub(super) ended: Option<ExitStatus>,
    /// The end of its output was read: nobody who could write to it is left.
    pub(super) is_silent: bool,
    /// How long that may take when its shim has ended: somebody is left then, and the guardian, if there is one, is ending them.
    pub(super) lingers: Option<Duration>,
    /// Nobody listens to it any more: what it says is read and thrown away.
    pub(super) is_muted: bool,
    /// When it is ended by force, after its input was closed: its shim is quicker, if it has one.
    pub(super) overdue: Option<(Duration, Signal)>,
}

impl Server {
    /// Starts one, without the signals that are blocked here.
    pub(super) fn start(shim: &Shim, blocked: &SigSet) -> io::Result<Self> {
        let (its_input, input) = io::pipe()?;
        let (output, its_output) = io::pipe()?;
        Ok(Self {
            input: Some(Stream::pipe(input.into())?),
            output: Some(Stream::pipe(output.into())?),
            shim: shim.spawn(&its_input, &its_output, blocked)?,
            may_be_accompanied: shim.may_be_accompanied,
            to_it: Buffer::default(),
            written: 0,
            read: 0,
            is_closing: false,
            from_it: Lines::default(),
            ended: None,
            is_silent: false,
            lingers: None,
            is_muted: false,
            overdue: None,
        })
    }

    /// Looks whether its shim has ended. By `until`, all others have.
    pub(super) fn look(&mut self, until: Duration) {
        if self.ended.is_none() {
            self.ended = self.shim.try_wait();
            self.lingers = self.ended.map(|_| until);
        }
    }

    /// Whether its end is proven: by its shim, which says 125 if it has no proof, and because nobody holds its output. A shim that was killed, by
    /// whomever, proves nothing: the output is silent although something of the server, or its containers, may live.
    pub(super) fn is_proven(&self) -> bool {
        let code = self.ended.and_then(|status| status.code());
        let was_killed =
            self.ended.and_then(|status| status.signal()) == Some(Signal::SIGKILL as i32);
        self.is_silent && code != Some(UNPROVEN) && !was_killed
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.shim.signal(signal);
    }

    /// Writes what there is room for in its input.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if let Some(input) = &mut self.input {
            let len = input.write(self.to_it.bytes())?;
            self.to_it.consume(len);
            self.written += len as u64;
        }
        Ok(())
    }

    /// Whether it has read something since this was asked last.
    pub(super) fn has_read(&mut self) -> bool {
        let unread = self.input.as_ref().map(Stream::unread);
        let read = unread.map_or(self.read, |unread| self.written.saturating_sub(unread));
        std::mem::replace(&mut self.read, read) < read
    }

    /// Closes its input.
    pub(super) fn close(&mut self, now: Duration, grace: Duration) {
        self.to_it.clear();
        if self.input.take().is_some() {
            let asked = now
                .saturating_add(grace.saturating_mul(2))
                .saturating_add(Duration::from_secs(1));
            self.overdue = Some((asked, Signal::SIGTERM));
        }
    }

    /// Ends it by force, if that is due. A shim that waits for its companion is deaf to SIGTERM, and is not killed before it gives that up by itself.
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
        self.overdue = (signal == Signal::SIGTERM).then_some((forced, Signal::SIGKILL));
    }

    /// Whether it has ended and everything that it said was passed on.
    pub(super) fn is_gone(&self) -> bool {
        self.ended.is_some() && self.output.is_none() && self.from_it.buffer.is_empty()
    }
}

/// The exit code of a shim whose server died of SIGKILL.
const KILLED: i32 = 128 + Signal::SIGKILL as i32;

/// The signal that a server died of, as its shim tells.
pub(super) fn signal_of(status: ExitStatus) -> Option<i32> {
    let killed = (status.code() == Some(KILLED)).then_some(Signal::SIGKILL as i32);
    status.signal().or(killed)
}

/// How a server ended, for people.
pub(super) fn describe(status: ExitStatus) -> String {
    let signal = signal_of(status);
    match (status.code().filter(|_| signal.is_none()), signal) {
        (Some(code), _) => format!("the server ended (exit code {code})"),
        (None, Some(signal)) => format!("the server was ended by signal {signal}"),
        (None, None) => "the server ended".to_owned(),
    }
}
