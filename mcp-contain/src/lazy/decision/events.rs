//! Events of a relay, and its actions.

use std::rc::Rc;
use std::time::Duration;

use crate::lazy::line::Id;

#[derive(Debug, Default, Clone)]
pub(in crate::lazy) struct Policy {
    pub(in crate::lazy) lazy: bool,
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

/// The work of a server: the bytes of its input that it has read, those that it has not, and the
/// processor time of all its processes.
pub(in crate::lazy) type Work = (u64, u64, Duration);

#[derive(Debug)]
pub(in crate::lazy) enum Event<'a> {
    Begin,
    Host(&'a [u8], FromHost),
    Server(&'a [u8], FromServer),
    /// The server has read input since the last such event.
    Progress,
    /// The server has closed its input. It may be exiting.
    InputClosed,
    /// The server has exited; whether anything of it is left is found out next.
    Exited,
    Time,
    /// A request to restart the server.
    Restart,
    /// A watched file has changed.
    Changed,
    /// The machine was suspended.
    Resumed,
    /// The answer to a look.
    Looked(Option<Work>),
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
    Cancelled(Id),
    Notification,
    Response(Id),
    /// May contain several messages.
    Batch,
    Other,
}

#[derive(Debug, Clone)]
pub(in crate::lazy) struct Request {
    pub(in crate::lazy) id: Id,
    pub(in crate::lazy) text: Box<[u8]>,
    pub(in crate::lazy) method: Method,
    /// It states its protocol version, as requests do since 2026-07-28.
    pub(in crate::lazy) is_modern: bool,
    pub(in crate::lazy) key: Option<Key>,
    pub(in crate::lazy) cached: Option<Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::lazy) enum Method {
    Initialize,
    Discover,
    /// A list of these.
    List(&'static str),
    Ping,
    SetLevel {
        is_valid: bool,
    },
    /// Starts a task or a subscription, which continues after the answer.
    Lasting,
    Other,
}

#[derive(Debug, Clone)]
pub(in crate::lazy) enum FromServer {
    Response(Response),
    /// Its ID, and the ID as written.
    Request(Id, Box<[u8]>),
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lazy) struct Answer {
    /// An object with nothing but the `result` or the `error`.
    pub(in crate::lazy) text: Rc<[u8]>,
    pub(in crate::lazy) digest: Key,
    pub(in crate::lazy) version: Option<Box<str>>,
    pub(in crate::lazy) has_logging: bool,
    pub(in crate::lazy) error: Option<(i64, String)>,
}

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
    /// Find out at once what the server has done.
    Look,
    Close,
    CloseNow,
    /// Exit once everything is written.
    Exit(Exit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::lazy) enum Exit {
    Success,
    AsServer,
    Unproven,
    /// The host got an answer that its server does not support.
    OtherVersion,
}
