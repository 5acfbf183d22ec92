//! Launch stdio MCP servers and never lose one: the traits, the termination
//! ladder, and a client that owns its server.
//!
//! * [`ServerLauncher`] and [`ProcessTerminator`] are the seams. Launchers for
//!   processes, containers and remote executors are crates of their own, and
//!   anybody can write another: a launcher supplies primitives, this crate owns
//!   the order, the clocks and the proof.
//! * [`LifecycleClient`] is an MCP client over `rmcp` that owns the server it
//!   started, and ends it on every path.
//! * [`ServerHandle`] owns a server without the client, for other protocols.
//!
//! A termination is `Ok` only on evidence that nothing of the server is left;
//! otherwise the error names the survivors. What a launcher can promise is data:
//! [`TerminationSemantics`], [`Containment`].
//!
//! This crate contains no process and no container code, and no `unsafe`.

#![forbid(unsafe_code)]

pub mod account;
pub mod config;
pub mod error;
pub mod manager;
pub mod pool;
pub mod spec;

mod callback;
mod client;
mod clock;
mod events;
mod exit;
mod handle;
mod identity;
mod ladder;
mod launcher;
mod policy;
mod reap;
mod registry;
mod remnant;
mod report;
mod restart;
mod semantics;
mod slot;
mod stdin;
mod terminator;
mod transport;

pub use client::{
    CallOptions, ClientState, Era, LifecycleClient, LifecycleClientBuilder, LifecyclePeer,
    ProtocolPreference,
};
pub use config::{ServerConfig, Sharing};
pub use events::{LifecycleEvent, LifecycleObserver};
pub use exit::ExitStatus;
pub use handle::{ServerHandle, TerminationOutcome};
pub use identity::ServerIdentity;
pub use ladder::Phase;
pub use launcher::{BoxRead, BoxWrite, LaunchedParts, LaunchedServer, ServerLauncher};
pub use manager::ServerManager;
pub use policy::TerminationPolicy;
pub use pool::{Lease, Scope, ServerPool};
pub use reap::{ReapReport, UnknownRemnant};
pub use remnant::{Evidence, Gone, Remnant, RemnantKind};
pub use report::{EndReason, PhaseRecord, TerminationReport};
pub use restart::RestartPolicy;
pub use semantics::{Containment, ContainmentUnavailable, Guarantee, Reach, TerminationSemantics};
pub use spec::ServerSpec;
pub use stdin::ServerStdin;
pub use terminator::ProcessTerminator;
pub use transport::{TransportLimits, WireStats};
