#![cfg_attr(feature = "client", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "client"), doc = "The seam and the termination ladder.")]
#![forbid(unsafe_code)]

#[cfg(feature = "backend")]
#[doc(hidden)]
pub mod backend;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "document")]
pub mod document;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
pub mod launch;
#[doc(hidden)]
pub mod lock;
#[doc(hidden)]
pub mod size;
pub mod terminate;

pub use launch::{
    Containment, ErrorChain, ExitStatus, LaunchError, LaunchedServer, ProcessTerminator,
    ServerIdentity, ServerLauncher, ServerSpec, TerminationSemantics,
};
pub use terminate::{
    EndReason, ServerHandle, TerminateError, TerminationPolicy, TerminationReport,
};

#[cfg(feature = "client")]
pub use client::{
    CallError, CallOptions, ClientState, LifecycleClient, LifecyclePeer, ServerConfig, ServerEvent,
    StartError,
};
#[cfg(feature = "fleet")]
pub use fleet::{FleetOptions, Lease, Scope, ServerManager, ServerPool};
#[cfg(feature = "client")]
pub use rmcp;
