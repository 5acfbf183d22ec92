use std::ffi::OsStr;

use thiserror::Error;

/// The reason a [`ServerSpec`](crate::launch::ServerSpec) is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum SpecError {
    #[error("the server's name is empty")]
    EmptyName,
    #[error("the command is empty; give the program to run")]
    EmptyCommand,
    #[error("{what} contains a NUL byte")]
    NulByte { what: &'static str },
    #[error("environment variable name {name:?} is empty or contains `=` or a NUL byte")]
    InvalidEnvName { name: String },
    /// An option that the launcher does not know or cannot read.
    #[error("option `{name}`: {problem}")]
    InvalidOption { name: String, problem: String },
}

pub(in crate::launch) fn reject_nul(what: &'static str, value: &OsStr) -> Result<(), SpecError> {
    if value.as_encoded_bytes().contains(&0) {
        return Err(SpecError::NulByte { what });
    }
    Ok(())
}
