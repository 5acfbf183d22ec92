//! The errors of a start and of a call.

pub(crate) mod call;
pub(crate) mod start;
