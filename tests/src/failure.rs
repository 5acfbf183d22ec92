//! Why a cell is red.

use std::error::Error;
use std::fmt;

use mcp_lifecycle_core::launch::ErrorChain;

/// What a check comes to.
pub(crate) type Check<T = ()> = Result<T, Failure>;

/// Why a cell is red, for people.
///
/// Not an [`Error`] itself, so that `?` takes any error.
#[derive(Debug, Clone)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// Says what was being done.
    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(ErrorChain(&error).to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fails unless `condition`.
pub(crate) fn ensure(condition: bool, otherwise: impl FnOnce() -> String) -> Check {
    if condition {
        return Ok(());
    }
    Err(Failure(otherwise()))
}
