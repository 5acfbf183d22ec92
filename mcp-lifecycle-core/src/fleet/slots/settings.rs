use crate::fleet::FleetOptions;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    Declared,
    OnDemand,
}

#[derive(Debug, Clone)]
pub(crate) struct SlotSettings {
    pub(crate) demand: Demand,
    /// Starts without waiting for other slots of its key.
    pub(crate) beside: bool,
    /// For a declared server, only its rules of restarts apply.
    pub(crate) options: FleetOptions,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_live: usize,
    pub(crate) max_starting: usize,
}
