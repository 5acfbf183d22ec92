use std::sync::Arc;
use std::time::Duration;

use crate::fleet::RestartPolicy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    Declared,
    /// It has a waiter or a lease.
    OnDemand,
}

#[derive(Debug, Clone)]
pub(crate) struct SlotSettings {
    pub(crate) demand: Demand,
    pub(crate) exclusive: bool,
    pub(crate) idle_ttl: Option<Duration>,
    pub(crate) restart: RestartPolicy,
    /// Starts without waiting for other slots of its key.
    pub(crate) beside: bool,
    /// The server's name, for the limit of one server.
    pub(crate) server: Arc<str>,
    pub(crate) max_of_server: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_live: usize,
    pub(crate) max_starting: usize,
}
