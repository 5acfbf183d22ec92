//! What happened: events, outcomes and sums, the same for a manager and a pool.

pub(crate) mod counters;
pub(crate) mod event;
pub(crate) mod journal;
pub(crate) mod outcome;
