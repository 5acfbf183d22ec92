//! Servers on demand, leased and shared: [`ServerPool`](server_pool::ServerPool).
//!
//! ```text
//!  acquire ──▶ Lease ──▶ dropped ──▶ idle ──▶ ended
//!     │          ▲                    │         after its idle time, to make room,
//!     │          └──── acquire ───────┘         or with its scope
//!     └─ AcquireError: the start failed, it failed lately, a limit was reached
//! ```
//!
//! Two callers share a process only if everything that makes the process is the
//! same: the scope, the launcher, the whole specification with its environment,
//! and the identity that the caller names, if it names one. That is compared by
//! value.
//!
//! A [`Scope`](scope::Scope) is the owner that most callers want: an agent, a session, a
//! workspace. When it ends, or its last handle is dropped, everything in it ends.
//!
//! Not guaranteed: that a leased server lives. A death that the host knows of is
//! never leased, one in the same instant shows in the first call.

pub(crate) mod builder;
mod key;
pub(crate) mod lease;
pub(crate) mod options;
pub(crate) mod scope;
pub(crate) mod server_pool;
