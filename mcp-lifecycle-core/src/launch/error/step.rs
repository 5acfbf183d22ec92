use thiserror::Error;

use super::{BoxError, because};

/// The failure of one step of a termination, or of its proof. The ladder continues with the next.
#[derive(Debug, Error)]
#[error("failed to {action}{}", because(Some(cause)))]
pub struct StepError {
    action: &'static str,
    cause: BoxError,
}

impl StepError {
    /// Creates the failure; `action` completes the sentence "failed to …".
    pub fn new(action: &'static str, cause: impl Into<BoxError>) -> Self {
        let cause = cause.into();
        Self { action, cause }
    }
}

/// The failure of a search for orphans.
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
    /// Creates the failure of a search by `launcher`.
    pub fn new(launcher: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        let (launcher, cause) = (launcher.into(), cause.into());
        Self { launcher, cause }
    }
}
