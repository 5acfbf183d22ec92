//! Events of a relay, and its actions.

use std::rc::Rc;
use std::time::Duration;

use crate::lazy::line::Id;

/// The user's settings.
#[derive(Debug, Default, Clone)]
pub(in crate::lazy) struct Policy {
    /// Answer requests from the cache.
    pub(in crate::lazy) lazy: bool,
    /// Restart a server that ended by itself.
    pub(in crate::lazy) restart: bool,
    /// The idle timeout of a stateless server; `None` is for ever.
    pub(in crate::lazy) idle: Option<Duration>,
    /// The idle timeout of a server with an older protocol.
    pub(in crate::lazy) idle_legacy: Option<Duration>,
    /// Time limit for writing the host's remaining input after it closed its output.
    pub(in crate::lazy) grace: Duration,
}

/// SHA-256 of a request, or of an answer.
pub(in crate::lazy) type Key = [u8; 32];

#[derive(Debug)]
pub(in crate::lazy) enum Event<'a> {
    /// The relay starts.
    Begin,
    /// A line of the host, with its newline.
    Host(&'a [u8], FromHost),
    Server(&'a [u8], FromServer),
    /// The server has read input since the last such event.
    Progress,
    /// The server has closed its input. It may be exiting.
    InputClosed,
    /// The server has exited; whether anything of it is left is found out next.
    Exited,
    /// A [deadline](super::Relay::deadline) may have passed.
    Time,
    /// The host has closed its output.
    HostClosed,
    /// A signal to end, which the server receives as well.
    Leave,
    /// The server's proven end, described.
    Gone(&'a str),
    /// The server's unproven end, described.
    Lost(&'a str),
}

#[derive(Debug, Clone)]
pub(in crate::lazy) enum FromHost {
    Request(Request),
    Initialized,
    /// The host cancels this request.
    Cancelled(Id),
    Notification,
    Response(Id),
    /// May contain several messages.
    Batch,
    Blank,
    Other,
}

#[derive(Debug, Clone)]
pub(in crate::lazy) struct Request {
    pub(in crate::lazy) id: Id,
    /// The ID as written.
    pub(in crate::lazy) text: Box<[u8]>,
    pub(in crate::lazy) method: Method,
    /// It states its protocol version, as requests do since 2026-07-28.
    pub(in crate::lazy) is_modern: bool,
    /// The cache key of its answer.
    pub(in crate::lazy) key: Option<Key>,
    /// The cached answer.
    pub(in crate::lazy) cached: Option<Answer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lazy) enum Method {
    Initialize,
    Discover,
    List(List),
    Ping,
    /// Sets the log level.
    SetLevel {
        /// The level is a valid one.
        is_valid: bool,
    },
    /// Starts a task or a subscription, which continues after the answer.
    Lasting,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::lazy) enum List {
    Tools,
    Prompts,
    Resources,
}

#[derive(Debug, Clone)]
pub(in crate::lazy) enum FromServer {
    Response(Response),
    /// A request: its ID, and the ID as written.
    Request(Id, Box<[u8]>),
    /// The server cancels this request.
    Cancelled(Id),
    Progress,
    Other,
}

#[derive(Debug, Clone)]
pub(in crate::lazy) struct Response {
    pub(in crate::lazy) id: Id,
    pub(in crate::lazy) is_error: bool,
    pub(in crate::lazy) is_task: bool,
    pub(in crate::lazy) has_next: bool,
    /// Present if it [is of interest](super::Relay::is_of_interest).
    pub(in crate::lazy) answer: Option<Answer>,
}

/// The content of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lazy) struct Answer {
    /// An object with nothing but the `result` or the `error`.
    pub(in crate::lazy) text: Rc<[u8]>,
    pub(in crate::lazy) digest: Key,
    /// The protocol version in an answer to `initialize`.
    pub(in crate::lazy) version: Option<Box<str>>,
    /// The capability `logging` in an answer to `initialize`.
    pub(in crate::lazy) has_logging: bool,
    pub(in crate::lazy) error: Option<(i64, String)>,
}

/// An action, carried out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lazy) enum Action {
    Pass,
    ToHost(Vec<u8>),
    ToServer(Rc<[u8]>),
    /// Answer the server with this, unless it does not read.
    Reply(Vec<u8>),
    Store(Key, Rc<[u8]>),
    Forget(Key),
    Start,
    /// Close the server's input once everything is written.
    Close,
    /// Close it now.
    CloseNow,
    /// Exit once everything is written.
    Exit(Exit),
}

/// The way the relay exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::lazy) enum Exit {
    Success,
    /// Like the last server.
    AsServer,
    /// Something of the last server may live.
    Unproven,
    /// The host got an answer that its server does not support.
    OtherVersion,
}
