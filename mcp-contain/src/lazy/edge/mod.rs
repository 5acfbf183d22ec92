//! A relay with its descriptors: one thread that waits in `poll` and does what was decided.
//!
//! - [`Edge`]: the streams, the server, and what moves between them
//! - [`wait`]: what is waited for
//! - [`act`], [`transfer`], [`leave`]: what was decided, what can be moved, how this process ends
//! - [`buffer`], [`stream`], [`server`]: one direction, one descriptor, one server
//! - [`spawn`]: the process of a server's shim

mod act;
mod buffer;
mod leave;
mod server;
mod spawn;
mod stream;
mod transfer;
mod wait;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;

use buffer::{Buffer, Lines, Piece, ROOM};
use server::{Server, describe};
pub(super) use spawn::Shim;
use stream::Stream;

use super::cache::{Cache, Entry};
use super::decision::Relay;
use super::decision::words::{Exit, FromHost, FromServer, Key, Method, Policy};
use super::message::Message;
use super::reading;

/// A relay.
#[derive(Debug)]
pub(super) struct Edge {
    relay: Relay,
    cache: Cache,
    policy: Policy,
    shim: Shim,
    began: Instant,
    mask: SigSet,
    signals: SignalFd,
    /// The host, if it can be held.
    host: Option<OwnedFd>,

    /// None at its end.
    input: Option<Stream>,
    from_host: Lines,
    /// Nobody writes to the input any more, and it could not be read to its end by then.
    hung_up: Option<Duration>,
    /// None when nobody reads it any more.
    output: Option<Stream>,
    to_host: Buffer,
    /// The parameters of the host's handshake.
    handshake: Option<Key>,

    server: Option<Server>,
    last: Option<ExitStatus>,
    exit: Option<Exit>,
    /// The signal that this process was told to die of, without a server.
    killed: Option<Signal>,
    /// The instant by which the rest has to be written.
    flush: Option<Duration>,
    /// That time is over.
    is_flushed: bool,
    /// A server could not be started.
    has_failed: bool,
    /// The number of bytes that the host has sent and no server was given.
    lost: u64,
}

/// The line that actions are about.
#[derive(Default)]
struct Subject<'a> {
    line: &'a [u8],
    from: Side,
    /// Of a request of the host: its id, and what the cache has.
    id: &'a [u8],
    entry: Option<Entry>,
    /// The answer of the server, if that is of interest.
    answer: Option<Entry>,
}

#[derive(Default)]
enum Side {
    #[default]
    Host,
    Server,
}

impl Edge {
    /// Takes the standard streams and the signals of this process, which has one thread.
    pub(super) fn new(
        policy: Policy,
        cache: Cache,
        shim: Shim,
        host: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let mask = wait::signals();
        mask.thread_block()?;
        Ok(Self {
            relay: Relay::new(policy.clone()),
            cache,
            policy,
            shim,
            began: Instant::now(),
            mask,
            signals: wait::signal_fd(&mask)?,
            host,
            input: Some(Stream::standard(io::stdin().as_fd(), true)?),
            from_host: Lines::default(),
            hung_up: None,
            output: Some(Stream::standard(io::stdout().as_fd(), false)?),
            to_host: Buffer::default(),
            handshake: None,
            server: None,
            last: None,
            exit: None,
            killed: None,
            flush: None,
            is_flushed: false,
            has_failed: false,
            lost: 0,
        })
    }

    /// Relays until the end.
    pub(super) fn run(mut self) -> io::Result<ExitCode> {
        let todo = self.relay.begin(self.now());
        self.act(todo, None);
        loop {
            while self.move_lines() {}
            if self.is_done() {
                return Ok(self.leave());
            }
            let ready = self.wait()?;
            self.serve(ready);
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Decides on what was read. Returns whether there may be more to do at once.
    fn move_lines(&mut self) -> bool {
        let moved = self.lines_of_host() | self.lines_of_server();
        let (now, patience) = (self.now(), self.patience());
        if let Some(server) = &mut self.server {
            if server.is_closing && server.to_it.is_empty() {
                server.close(now, self.policy.grace);
            }
            if server.ended.is_some() && (self.relay.is_last() || self.exit.is_some()) {
                // A host that reads nothing holds nobody up.
                let flush = *self.flush.get_or_insert(now.saturating_add(patience));
                if flush <= now {
                    self.is_flushed = true;
                    server.is_muted = true;
                    server.from_it = Lines::default();
                    self.to_host.clear();
                }
            }
            if server.is_gone() {
                let status = server.ended;
                let is_proven = server.is_proven();
                // Or the next server's first line would be the end of what this one has not ended.
                let is_cut = server.from_it.is_cut() && !server.is_muted;
                self.server = None;
                self.last = status;
                // They may be asleep for long.
                self.to_host.release();
                self.from_host.buffer.release();
                if is_cut && (self.policy.restart || !self.relay.is_last()) {
                    self.to_host.push(b"\n");
                }
                let how = status.map_or_else(String::new, describe);
                let todo = match is_proven {
                    true => self.relay.gone(now, &how),
                    false => self.relay.lost(&how),
                };
                self.act(todo, None);
                return true;
            }
        }
        moved
    }

    /// Whether more of the host's lines can be taken.
    fn has_room(&self) -> bool {
        let to_server = self.server.as_ref().map_or(0, |server| server.to_it.len());
        let answers = if self.relay.answers() {
            self.to_host.len()
        } else {
            0
        };
        to_server < ROOM && self.relay.held() < ROOM && answers < ROOM && self.exit.is_none()
    }

    fn lines_of_host(&mut self) -> bool {
        let mut moved = false;
        let mut lines = std::mem::take(&mut self.from_host);
        while self.has_room() {
            let Some(piece) = lines.next(self.input.is_none()) else {
                break;
            };
            moved = true;
            let (Piece::Line(len) | Piece::Long(len) | Piece::More(len)) = piece;
            let line = lines.buffer.bytes().get(..len).unwrap_or_default();
            let cache = (self.policy.lazy && !self.relay.passes()).then_some(&self.cache);
            let mut id: &[u8] = &[];
            let (what, entry) = match piece {
                Piece::Line(_) => {
                    let message = Message::of(line);
                    if let Message::Request { id: its, .. } = message {
                        id = its;
                    }
                    reading::of_host(&message, self.handshake.as_ref(), cache)
                }
                Piece::Long(_) => (FromHost::Long, None),
                Piece::More(_) => (FromHost::More, None),
            };
            if let FromHost::Request(request) = &what
                && request.method == Method::Initialize
            {
                self.handshake = request.key;
            }
            let todo = self.relay.host(self.now(), line, what);
            self.act(
                todo,
                Some(Subject {
                    line,
                    id,
                    entry,
                    ..Subject::default()
                }),
            );
            lines.buffer.consume(len);
        }
        self.from_host = lines;
        if self.input.is_none() && self.from_host.buffer.is_empty() {
            let todo = self.relay.host_closed(self.now());
            self.act(todo, None);
        }
        moved
    }

    fn lines_of_server(&mut self) -> bool {
        let mut moved = false;
        while self.to_host.len() < ROOM {
            let Some(server) = &mut self.server else {
                break;
            };
            let is_end = server.output.is_none();
            let Some(piece) = server.from_it.next(is_end) else {
                break;
            };
            moved = true;
            let mut lines = std::mem::take(&mut server.from_it);
            let (Piece::Line(len) | Piece::Long(len) | Piece::More(len)) = piece;
            let line = lines.buffer.bytes().get(..len).unwrap_or_default();
            let message = match piece {
                Piece::Line(_) => Message::of(line),
                Piece::Long(_) | Piece::More(_) => Message::Other,
            };
            let what = reading::of_server(&message, |id| self.relay.is_of_interest(id));
            let answer = match (&what, message) {
                (FromServer::Response(response), Message::Response { answer, .. })
                    if response.known.is_some() =>
                {
                    let (is_error, answer) = (answer.is_error, answer.text.to_vec());
                    Some(Entry { is_error, answer })
                }
                _ => None,
            };
            let todo = self.relay.server(self.now(), what);
            let is_cut = is_end && line.last() != Some(&b'\n');
            self.act(
                todo,
                Some(Subject {
                    line,
                    from: Side::Server,
                    answer,
                    ..Subject::default()
                }),
            );
            if is_cut && (self.policy.restart || !self.relay.is_last()) {
                // Or the next server's first line would be its end.
                self.to_host.push(b"\n");
            }
            lines.buffer.consume(len);
            if let Some(server) = &mut self.server {
                server.from_it = lines;
            }
        }
        moved
    }
}
