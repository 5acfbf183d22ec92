//! Errors, one type per operation.
//!
//! Each `Display` includes the cause, as a lower-case fragment. Errors of several kinds have a
//! [`kind`](launch::LaunchError::kind), and a `context` with their subject.

pub(crate) mod launch;
pub(crate) mod spec;
pub(crate) mod step;

use std::fmt;

/// A boxed launcher-specific error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Prints an error with its causes on one line: `what: why: why of why`.
///
/// ```
/// use mcp_lifecycle_core::launch::ErrorChain;
///
/// let error = std::io::Error::new(std::io::ErrorKind::NotFound, "no such server");
/// assert_eq!(ErrorChain(&error).to_string(), "no such server");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ErrorChain<'a>(pub &'a (dyn std::error::Error + 'a));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

pub(super) fn because(cause: Option<&BoxError>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {}", ErrorChain(&**cause)))
}
