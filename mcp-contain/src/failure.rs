//! What goes wrong before a server runs: one line, and the exit code that `env` and
//! `timeout` use for it.

use std::fmt;
use std::process::ExitCode;

/// The reason that there is no server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The wrapper itself failed: 125.
    pub(crate) fn wrapper(message: impl fmt::Display) -> Self {
        Self::new(125, message)
    }

    fn new(code: u8, message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self { code, message }
    }

    /// Says it in one line on standard error, and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        use std::io::Write as _;
        // Nobody may be listening.
        let _ = writeln!(std::io::stderr(), "mcp-contain: {}", self.message);
        ExitCode::from(self.code)
    }
}
