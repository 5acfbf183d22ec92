//! The MCP client that owns its server. Calls are never replayed: only the caller knows whether a
//! tool may run twice.

pub(crate) mod call;
pub(crate) mod config;
mod elicitation;
pub(crate) mod error;
pub(crate) mod event;
mod handler;
pub(crate) mod handshake;
pub(crate) mod lifecycle_client;
pub(crate) mod options;
pub(crate) mod owned_transport;
pub(crate) mod peer;
mod session;
pub(crate) mod start;
pub(crate) mod state;
mod stderr;
pub(crate) mod transport;

pub use config::ServerConfig;
pub use error::{
    CallError, CallErrorContext, CallErrorKind, SkippedLines, StartError, StartErrorContext,
    StartErrorKind, StartPhase,
};
pub use event::{EndResult, ServerEvent, ServerEventKind, ServerObserver, StartReason};
pub use handshake::{Era, ProtocolPreference};
pub use lifecycle_client::LifecycleClient;
pub use options::CallOptions;
pub use owned_transport::OwnedTransport;
pub use peer::LifecyclePeer;
pub use start::LifecycleClientBuilder;
pub use state::ClientState;
pub use transport::TransportLimits;
