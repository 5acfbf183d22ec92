//! The columns of the matrix: the ways a server's life can end.

mod cancelled;
mod client;
mod dropped;
mod hosts;
mod ordered;

use std::fmt;
use std::sync::Arc;

use mcp_lifecycle_core::launch::{Containment, Reach};

use crate::contract::{self, Rule};
use crate::failure::{Check, Failure};
use crate::fixture::{Fixture, Serves};
use crate::stage::{Stage, Subject};

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
        }
    }

    /// The reason the combination means nothing, if it does not.
    fn means_nothing_for(self, fixture: &Fixture) -> Option<&'static str> {
        const SPAWNING: [&str; 6] = [
            "plain",
            "ignore-eof",
            "helper",
            "setsid",
            "double-fork",
            "wiped-env",
        ];
        if let Some(why) = fixture.is_missing_here() {
            return Some(why);
        }
        match self {
            Self::LeaderExits if fixture.serves != Serves::Yes || !fixture.reads => {
                Some("it does not exit when it is asked to")
            }
            Self::Spawning if !SPAWNING.contains(&fixture.name()) => {
                Some("what it does differently, it does later")
            }
            _ => None,
        }
    }

    /// The reach that is declared for an end of this way.
    fn reach(self, declared: &Containment) -> Reach {
        match self {
            Self::HostKilled => declared.on_host_death,
            Self::Spawning if declared.placement_is_atomic => declared.on_host_death,
            Self::Spawning => Reach::Nothing,
            _ => declared.on_terminate,
        }
    }

    /// The sentence that is broken when this fails, unless something says better.
    fn rule(self) -> &'static Rule {
        match self {
            Self::Graceful | Self::InFlight => &contract::PROOF,
            Self::Concurrent => &contract::ANY_ORDER,
            Self::LeaderExits => &contract::EXIT,
            Self::Drop | Self::NoRuntime => &contract::LAST_RESORT,
            Self::Cancelled => &contract::NO_GAP,
            Self::HostKilled => &contract::HOST_DEATH,
            Self::Spawning => &contract::ATOMIC,
        }
    }

    async fn end(self, stage: &Arc<Stage>) -> Check {
        match self {
            Self::Graceful => ordered::graceful(stage).await,
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

/// Lets a server of this fixture end in this way, and judges what is left.
pub(crate) async fn perform(subject: Arc<Subject>, fixture: Fixture, way: Way) -> Check {
    if let Some(why) = way.means_nothing_for(&fixture) {
        return Err(Failure::NotApplicable(why.to_owned()));
    }
    let reach = || way.reach(&subject.launcher.semantics().containment);
    if reach() < fixture.needs() {
        // What is declared may be known by the first launch only.
        subject.warm_up().await?;
    }
    if reach() < fixture.needs() {
        return Err(Failure::NotApplicable(format!(
            "it takes an end that reaches the {}; declared for it: {}",
            fixture.needs(),
            reach()
        )));
    }
    let stage = Arc::new(Stage::open_counted(&subject, fixture).await?);
    // Judged either way: what a failed experiment leaves is worth knowing.
    let ended = way.end(&stage).await;
    let judged = ended.and(stage.close().await);
    judged.map_err(|failure| failure.breaks(way.rule()))
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
