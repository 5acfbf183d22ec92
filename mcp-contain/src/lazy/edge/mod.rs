//! A relay with its descriptors: one thread that waits in `poll` and carries out actions.

mod act;
mod server;
mod stream;
mod wait;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signalfd::{SfdFlags, SignalFd};

pub(super) use server::Shim;
use server::{Server, describe};
use stream::{Buffer, LINE_MAX, Lines, ROOM, Stream};
pub(crate) use wait::signals;
use wait::suspended;

use super::cache::Cache;
use super::decision::Relay;
use super::decision::events::{Event, Exit, Policy};
use super::line;
use crate::watch::Watch;

#[derive(Debug)]
pub(super) struct Edge {
    relay: Relay,
    cache: Cache,
    policy: Policy,
    shim: Shim,
    began: Instant,
    /// How long the machine was suspended since it was started.
    suspended: Duration,
    signals: SignalFd,
    host: Option<OwnedFd>,
    watch: Option<Watch>,

    input: Option<Stream>,
    from_host: Lines,
    /// The deadline for reading the rest of an input without writers.
    hung_up: Option<Duration>,
    output: Option<Stream>,
    to_host: Buffer,

    server: Option<Server>,
    last: Option<ExitStatus>,
    exit: Option<Exit>,
    /// The signal that ends this process, if it arrived without a server.
    killed: Option<i32>,
    flush: Option<Duration>,
    has_failed: bool,
    /// No server got the last of the host's input.
    has_lost: bool,
}

impl Edge {
    /// Takes over the standard streams and signals of this process, which must have one thread.
    pub(super) fn new(
        policy: Policy,
        cache: Cache,
        shim: Shim,
        host: Option<OwnedFd>,
        watched: &[PathBuf],
    ) -> io::Result<Self> {
        let mask = signals();
        mask.thread_block()?;
        let watch = (!watched.is_empty()).then(|| Watch::new(watched));
        Ok(Self {
            relay: Relay::new(policy.clone()),
            cache,
            policy,
            shim,
            began: Instant::now(),
            suspended: suspended(),
            signals: SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?,
            host,
            watch: watch.transpose()?,
            input: Some(Stream::standard(io::stdin().as_fd(), true)?),
            from_host: Lines::default(),
            hung_up: None,
            output: Some(Stream::standard(io::stdout().as_fd(), false)?),
            to_host: Buffer::default(),
            server: None,
            last: None,
            exit: None,
            killed: None,
            flush: None,
            has_failed: false,
            has_lost: false,
        })
    }

    pub(super) fn run(mut self) -> io::Result<ExitCode> {
        self.decide(Event::Begin);
        loop {
            while self.lines_of_host() | self.lines_of_server() | self.end_of_server() {}
            self.check_lines()?;
            if self.is_done() {
                return Ok(self.leave());
            }
            let ready = self.wait()?;
            self.serve(ready);
        }
    }

    /// Fails if a line is oversized: without its end, it cannot be parsed.
    fn check_lines(&self) -> io::Result<()> {
        let server = self.server.as_ref();
        let of = match () {
            () if self.from_host.is_oversized() => "host",
            () if server.is_some_and(|server| server.from_it.is_oversized()) => "server",
            () => return Ok(()),
        };
        let limit = LINE_MAX >> 20;
        Err(io::Error::other(format!(
            "a line of the {of} is longer than {limit} MiB"
        )))
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn grace_end(&self) -> Duration {
        self.now().saturating_add(self.policy.grace)
    }

    fn has_room(&self) -> bool {
        let to_server = self.server.as_ref().map_or(0, |server| server.to_it.len());
        let is_heard = !self.relay.answers() || self.to_host.len() < ROOM;
        to_server < ROOM && self.relay.held() < ROOM && is_heard && self.exit.is_none()
    }

    /// Decides on received lines of the host. Returns whether there were any.
    fn lines_of_host(&mut self) -> bool {
        let mut moved = false;
        let mut lines = std::mem::take(&mut self.from_host);
        while self.has_room()
            && let Some(len) = lines.next(self.input.is_none())
        {
            moved = true;
            let line = lines.front(len);
            let cache = (self.policy.lazy && !self.relay.passes()).then_some(&self.cache);
            let what = line::of_host(line, self.relay.handshake_key(), cache);
            self.decide(Event::Host(line, what));
            lines.buffer.consume(len);
        }
        self.from_host = lines;
        if self.input.is_none() && self.from_host.buffer.is_empty() {
            self.decide(Event::HostClosed);
        }
        moved
    }

    fn lines_of_server(&mut self) -> bool {
        let mut moved = false;
        while self.to_host.len() < ROOM
            && let Some(server) = &mut self.server
            && let is_end = server.output.is_none()
            && let Some(len) = server.from_it.next(is_end)
        {
            moved = true;
            let mut lines = std::mem::take(&mut server.from_it);
            let line = lines.front(len);
            let what = line::of_server(line, |id| self.relay.is_of_interest(id));
            self.decide(Event::Server(line, what));
            lines.buffer.consume(len);
            if let Some(server) = &mut self.server {
                server.from_it = lines;
            }
        }
        moved
    }

    /// Closes the server's input where that is due. Returns whether the server has ended.
    fn end_of_server(&mut self) -> bool {
        let (now, patience) = (self.now(), self.patience());
        let Some(server) = &mut self.server else {
            return false;
        };
        if server.is_closing && server.to_it.is_empty() {
            server.close(now, self.policy.grace);
        }
        if server.ended.is_some() && (self.relay.is_last() || self.exit.is_some()) {
            // A host that does not read must not delay the exit.
            let flush = *self.flush.get_or_insert(now.saturating_add(patience));
            if flush <= now {
                server.is_muted = true;
                server.from_it = Lines::default();
                self.to_host.clear();
            }
        }
        if !server.is_gone() {
            return false;
        }
        let is_proven = server.is_proven();
        self.last = server.ended;
        self.server = None;
        // The relay may sleep for long.
        self.to_host.release();
        self.from_host.buffer.release();
        let how = self.last.map_or_else(String::new, describe);
        self.decide(match is_proven {
            true => Event::Gone(&how),
            false => Event::Lost(&how),
        });
        true
    }
}
