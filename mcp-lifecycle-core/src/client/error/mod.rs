//! What can go wrong with a start or a call.

pub(crate) mod call;
pub(crate) mod start;
