//! Events that are told to a relay, and actions that it orders.

use std::rc::Rc;
use std::time::Duration;

use crate::lazy::message::Id;

/// The wishes of the user.
#[derive(Debug, Clone)]
pub(in crate::lazy) struct Policy {
    /// Requests are answered from the cache.
    pub(in crate::lazy) lazy: bool,
    /// A server that ended by itself is started again.
    pub(in crate::lazy) restart: bool,
    /// The idle time of a server that keeps nothing between requests; `None` is for ever.
    pub(in crate::lazy) idle: Option<Duration>,
    /// The same of an older one.
    pub(in crate::lazy) idle_legacy: Option<Duration>,
    /// How long what the host has sent may take to be written when it has closed its end.
    pub(in crate::lazy) grace: Duration,
}

/// By what an answer is found in the cache: SHA-256.
pub(in crate::lazy) type Key = [u8; 32];

/// The content of an answer: SHA-256.
pub(in crate::lazy) type Digest = [u8; 32];

/// A line of the host.
#[derive(Debug, Clone)]
pub(in crate::lazy) enum FromHost {
    Request(Request),
    Initialized,
    /// It wants no answer to this request any more.
    Cancelled(Id),
    Notification,
    Response(Id),
    /// May hold several messages.
    Batch,
    /// The first part of a line that is too long to be looked at.
    Long,
    /// A further part of it.
    More,
    Blank,
    Other,
}

/// A request of the host.
#[derive(Debug, Clone)]
pub(in crate::lazy) struct Request {
    pub(in crate::lazy) id: Id,
    /// The id as it was written.
    pub(in crate::lazy) text: Box<[u8]>,
    pub(in crate::lazy) method: Method,
    /// It says its protocol version, as requests do since 2026-07-28.
    pub(in crate::lazy) is_modern: bool,
    /// Where its answer belongs in the cache.
    pub(in crate::lazy) key: Option<Key>,
    /// The answer of the cache.
    pub(in crate::lazy) cached: Option<Known>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lazy) enum Method {
    Initialize,
    Discover,
    List(List),
    Ping,
    SetLevel,
    Subscribe(Box<[u8]>),
    Unsubscribe(Box<[u8]>),
    /// Asks for a task, which goes on when the request was answered.
    Task,
    Other,
}

/// The kind of things that a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::lazy) enum List {
    Tools,
    Prompts,
    Resources,
}

/// An answer, by what is compared of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lazy) struct Known {
    pub(in crate::lazy) digest: Digest,
    /// The protocol version, of an answer to `initialize`.
    pub(in crate::lazy) version: Option<Box<[u8]>>,
    /// The code and the message, of an error.
    pub(in crate::lazy) error: Option<(i64, String)>,
}

/// A line of the server.
#[derive(Debug, Clone)]
pub(in crate::lazy) enum FromServer {
    Response(Response),
    Request {
        id: Id,
        text: Box<[u8]>,
    },
    /// It wants no answer to this request any more.
    Cancelled(Id),
    Progress,
    Other,
}

/// A response of the server.
#[derive(Debug, Clone)]
pub(in crate::lazy) struct Response {
    pub(in crate::lazy) id: Id,
    pub(in crate::lazy) is_error: bool,
    pub(in crate::lazy) is_task: bool,
    pub(in crate::lazy) has_next: bool,
    /// If it [is of interest](super::Relay::is_of_interest).
    pub(in crate::lazy) known: Option<Known>,
}

/// A thing to be done, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lazy) enum Action {
    /// Pass on the line that was told, to the other side.
    Pass,
    /// Answer the request that was told with what the cache has.
    Answer,
    /// Write this to the host.
    Say(Vec<u8>),
    /// Write this to the server.
    Tell(Rc<[u8]>),
    /// Answer the server with this, unless it reads nothing.
    Reply(Vec<u8>),
    /// Put the answer that was told into the cache, or only look whether it is there.
    Store(Key),
    /// Remove an answer from the cache.
    Forget(Key),
    /// Start a server.
    Start,
    /// Close the server's input when everything is written.
    Close,
    /// Close it now.
    CloseNow,
    /// Leave, when everything is written.
    Exit(Exit),
}

/// How the relay ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::lazy) enum Exit {
    Success,
    /// As the last server did.
    AsServer,
    /// Something of the last server may live.
    Unproven,
    /// The host was given an answer that its server does not stand by.
    OtherVersion,
}
