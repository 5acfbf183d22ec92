//! The failure of one primitive of a [`ProcessTerminator`](crate::launch::ProcessTerminator).

use thiserror::Error;

use super::BoxError;

/// One step of a termination could not be carried out, or proof could not be had.
///
/// The ladder goes on to the next rung, and the report or the final error says
/// which step failed.
#[derive(Debug, Error)]
#[error("failed to {action}")]
pub struct StepError {
    action: &'static str,
    #[source]
    source: BoxError,
}

impl StepError {
    /// `action` completes the sentence "failed to …".
    pub fn new(action: &'static str, source: impl Into<BoxError>) -> Self {
        Self {
            action,
            source: source.into(),
        }
    }
}
