//! What runs, whose it is, and why it is alive: the same for a manager and a pool.

pub(crate) mod record;
pub(crate) mod table;
