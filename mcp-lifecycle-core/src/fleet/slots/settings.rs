//! The settings of a slot and of a table.

use std::sync::Arc;
use std::time::Duration;

use crate::client::restart::RestartPolicy;

/// The reason a slot has a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Because it is declared.
    Declared,
    /// Because somebody waits for it or holds it.
    OnDemand,
}

/// The settings of a slot's server.
#[derive(Debug, Clone)]
pub(crate) struct SlotSettings {
    pub(crate) demand: Demand,
    /// One lease at a time.
    pub(crate) exclusive: bool,
    /// How long it may idle; `None` is for ever.
    pub(crate) idle_ttl: Option<Duration>,
    pub(crate) restart: RestartPolicy,
    /// Does not wait for other slots of its key.
    pub(crate) beside: bool,
    /// The server's name, for the limit of one server.
    pub(crate) server: Arc<str>,
    /// How many live slots may have this name.
    pub(crate) max_of_server: Option<usize>,
}

/// The limits of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The number of slots that may be live.
    pub(crate) max_live: usize,
    /// How many may be starting at a time.
    pub(crate) max_starting: usize,
}
