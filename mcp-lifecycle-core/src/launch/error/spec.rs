use std::ffi::OsStr;

use thiserror::Error;

/// The reason a [`ServerSpec`](crate::launch::ServerSpec) is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "a field of a variant has the name of what it is"
)]
pub enum SpecError {
    /// The server has no name.
    #[error("the server's name is empty")]
    EmptyName,
    /// There is no command to run.
    #[error("the command is empty; give the program to run")]
    EmptyCommand,
    /// A NUL byte, which no system call can pass on.
    #[error("{what} contains a NUL byte")]
    NulByte { what: &'static str },
    /// The name of an environment variable is empty or contains `=` or NUL.
    #[error("environment variable name {name:?} is empty or contains `=` or a NUL byte")]
    InvalidEnvName { name: String },
    /// An option that the launcher does not know or cannot read.
    #[error("option `{name}`: {problem}")]
    InvalidOption { name: String, problem: String },
}

/// Rejects a NUL byte, which no system call accepts.
pub(in crate::launch) fn reject_nul(what: &'static str, value: &OsStr) -> Result<(), SpecError> {
    if value.as_encoded_bytes().contains(&0) {
        return Err(SpecError::NulByte { what });
    }
    Ok(())
}
