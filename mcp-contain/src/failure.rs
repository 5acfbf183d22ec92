//! Failures before a server runs: one line and the exit codes of `env` and `timeout`.

use std::fmt;
use std::process::ExitCode;

use mcp_tree::WrapError;

use crate::show::text::one_line;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn wrapper(message: impl fmt::Display) -> Self {
        Self::new(125, message)
    }

    /// Returns a failure to start the server: 127 if the program does not exist, 126 if it cannot
    /// be executed, 125 otherwise.
    pub(crate) fn launch(error: &WrapError) -> Self {
        use mcp_lifecycle_core::launch::LaunchErrorKind as Kind;
        let code = match error.kind() {
            Kind::NotFound { .. } | Kind::NoSuchFile(_) => 127,
            Kind::NotExecutable(_) | Kind::IsDirectory(_) => 126,
            _ => 125,
        };
        Self::new(code, error)
    }

    pub(crate) fn plain(message: impl fmt::Display) -> Self {
        Self::new(1, message)
    }

    pub(crate) fn with_hint(mut self, meant: Option<String>) -> Self {
        if let Some(verb) = meant.filter(|_| self.code == 127) {
            self.message += &format!("; did you mean `mcp-contain {verb}`?");
        }
        self
    }

    fn new(code: u8, message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self { code, message }
    }

    pub(crate) fn say(&self) {
        use std::io::Write as _;
        let message = one_line(&self.message.replace('\n', " "));
        let line = format!("mcp-contain: {message}\n");
        // In one write, so that it is not mixed with other output. Stderr may be closed.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    pub(crate) fn report(self) -> ExitCode {
        self.say();
        ExitCode::from(self.code)
    }
}
