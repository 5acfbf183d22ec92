//! The MCP client that owns its server.
//!
//! ```text
//!  start ──▶ Starting ──▶ Ready ──▶ Ending ──▶ Ended
//!               │           │          ▲          │
//!               │           └──────────┘          └─ proven, or an error that
//!               │      shutdown, drop, the           names what is left
//!               │      server's own exit
//!               └─ StartError, after the end of whatever had been started
//! ```
//!
//! The client is the one owner. [`LifecyclePeer`], which makes the calls, is
//! cheap to clone and keeps nothing alive: when the client shuts down or is
//! dropped, every peer's calls fail at once and say why.
//!
//! Not guaranteed: calls are not replayed, neither here nor anywhere in this
//! crate, because only the caller knows whether a tool may run twice.

pub(crate) mod builder;
pub(crate) mod call;
pub(crate) mod callback;
pub(crate) mod config;
mod elicitation;
pub(crate) mod era;
pub(crate) mod error;
pub(crate) mod event;
mod handler;
mod handshake;
pub(crate) mod lifecycle_client;
pub(crate) mod options;
mod owner;
pub(crate) mod peer;
pub(crate) mod restart;
pub(crate) mod server_transport;
mod session;
pub(crate) mod start;
pub(crate) mod state;
mod stderr;
pub(crate) mod transport;
mod watcher;

pub use builder::LifecycleClientBuilder;
pub use config::{ServerConfig, Sharing};
pub use era::{Era, ProtocolPreference};
pub use error::call::{CallError, CallErrorContext, CallErrorKind};
pub use error::start::{SkippedLines, StartError, StartErrorContext, StartErrorKind, StartPhase};
pub use event::{EndResult, ServerEvent, ServerEventKind, ServerObserver, StartReason};
pub use lifecycle_client::LifecycleClient;
pub use options::CallOptions;
pub use peer::LifecyclePeer;
pub use restart::RestartPolicy;
pub use server_transport::ServerTransport;
pub use state::ClientState;
pub use transport::{TransportLimits, WireStats};
