//! The reason a specification is not valid.

use std::ffi::OsStr;

use thiserror::Error;

/// The reason a [`ServerSpec`](crate::launch::ServerSpec) is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The server has no name.
    #[error("the server's name is empty")]
    EmptyName,
    /// There is no command to run.
    #[error("the command is empty; give the program to run")]
    EmptyCommand,
    /// A NUL byte, which no system call can pass on.
    #[error("{what} contains a NUL byte")]
    NulByte {
        /// The place.
        what: &'static str,
    },
    /// The name of an environment variable is empty or contains `=` or NUL.
    #[error("environment variable name {name:?} is empty or contains `=` or a NUL byte")]
    InvalidEnvName {
        /// The name.
        name: String,
    },
    /// An option that the launcher does not know or cannot read.
    #[error("option `{name}`: {problem}")]
    InvalidOption {
        /// Its name.
        name: String,
        /// The problem with it and what would be right.
        problem: String,
    },
}

/// No system call passes a NUL byte on.
pub(in crate::launch) fn reject_nul(what: &'static str, value: &OsStr) -> Result<(), SpecError> {
    if value.as_encoded_bytes().contains(&0) {
        return Err(SpecError::NulByte { what });
    }
    Ok(())
}
