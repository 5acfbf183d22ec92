//! The failure of one primitive of a launcher.

use thiserror::Error;

use super::{BoxError, because};

/// One step of a termination could not be carried out, or proof could not be had.
///
/// The ladder goes on to the next rung, and the report or the final error says
/// which step failed.
#[derive(Debug, Error)]
#[error("failed to {action}{}", because(Some(cause)))]
pub struct StepError {
    action: &'static str,
    cause: BoxError,
}

impl StepError {
    /// `action` completes the sentence "failed to …".
    pub fn new(action: &'static str, cause: impl Into<BoxError>) -> Self {
        let cause = cause.into();
        Self { action, cause }
    }

    /// The reason it failed.
    pub fn cause(&self) -> &BoxError {
        &self.cause
    }
}

/// The search for orphans of earlier hosts failed.
#[derive(Debug, Error)]
#[error(
    "{launcher} launcher failed to look for orphans of earlier hosts{}",
    because(Some(cause))
)]
pub struct ReapError {
    launcher: String,
    cause: BoxError,
}

impl ReapError {
    /// The search by `launcher` failed for this reason.
    pub fn new(launcher: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        let (launcher, cause) = (launcher.into(), cause.into());
        Self { launcher, cause }
    }

    /// The reason it failed.
    pub fn cause(&self) -> &BoxError {
        &self.cause
    }
}
