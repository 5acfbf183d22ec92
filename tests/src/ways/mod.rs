//! The columns of the matrix: the ways a server's life can end.

mod cancelled;
mod client;
mod dropped;
mod hosts;
mod ordered;

use std::fmt;
use std::sync::Arc;

use crate::failure::Check;
use crate::fixture::{Fixture, Serves};
use crate::stage::Stage;

/// A way a server's life can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// Its owner ends it in order.
    Graceful,
    /// Its client shuts down while a call is in flight, or fails to start it.
    InFlight,
    /// Ten callers end it at once.
    Concurrent,
    /// Its main process exits by itself, then its owner ends it.
    LeaderExits,
    /// Its owner is dropped.
    Drop,
    /// Its owner is dropped by a panic, after the runtime has gone.
    NoRuntime,
    /// Its launch is dropped, at each await point.
    Cancelled,
    /// Its host is killed while nothing happens.
    HostKilled,
    /// Its host is killed at a random instant of its launch.
    Spawning,
    /// As [`Graceful`](Self::Graceful), without a census: not a column.
    #[doc(hidden)]
    WarmUp,
}

impl Way {
    /// Every way, in the order of the columns.
    pub const ALL: &'static [Self] = &[
        Self::Graceful,
        Self::InFlight,
        Self::Concurrent,
        Self::LeaderExits,
        Self::Drop,
        Self::NoRuntime,
        Self::Cancelled,
        Self::HostKilled,
        Self::Spawning,
    ];

    /// The head of the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Graceful => "graceful",
            Self::InFlight => "in flight",
            Self::Concurrent => "concurrent",
            Self::LeaderExits => "leader exits",
            Self::Drop => "drop",
            Self::NoRuntime => "no runtime",
            Self::Cancelled => "cancelled",
            Self::HostKilled => "host killed",
            Self::Spawning => "spawning",
            Self::WarmUp => "warm-up",
        }
    }

    /// Whether the combination means anything.
    pub(crate) fn applies_to(self, fixture: &Fixture) -> bool {
        match self {
            Self::LeaderExits => fixture.serves == Serves::Yes && fixture.reads,
            // One of each reach: what differs later does not differ yet.
            Self::Spawning => {
                ["plain", "helper", "setsid", "double-fork", "wiped-env"].contains(&fixture.name())
            }
            _ => true,
        }
    }

    pub(crate) fn kills_the_host(self) -> bool {
        matches!(self, Self::HostKilled | Self::Spawning)
    }

    pub(crate) async fn perform(self, stage: &Arc<Stage>) -> Check {
        match self {
            Self::Graceful | Self::WarmUp => ordered::graceful(stage).await,
            Self::InFlight => client::in_flight(stage).await,
            Self::Concurrent => ordered::concurrent(stage).await,
            Self::LeaderExits => ordered::leader_exits(stage).await,
            Self::Drop => dropped::in_a_runtime(stage).await,
            Self::NoRuntime => dropped::without_a_runtime(stage).await,
            Self::Cancelled => cancelled::at_each_await(stage).await,
            Self::HostKilled => hosts::idle(stage).await,
            Self::Spawning => hosts::spawning(stage).await,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
