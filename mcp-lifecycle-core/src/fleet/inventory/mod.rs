//! The list of servers, with owners and reasons: the same for a manager and a pool.

pub(crate) mod record;
