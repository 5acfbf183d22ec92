//! Failures before a server runs: one line, and the exit code that `env` and
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

    /// The server could not be started: 127 where there is no such program, 126 where it
    /// cannot be executed, 125 otherwise.
    #[cfg(any(target_os = "linux", windows))]
    pub(crate) fn launch(error: &mcp_launcher_local::WrapError) -> Self {
        use mcp_lifecycle_core::launch::LaunchErrorKind as Kind;
        let code = match error.kind() {
            Kind::NotFound { .. } | Kind::NoSuchFile(_) => 127,
            Kind::NotExecutable(_) | Kind::IsDirectory(_) => 126,
            _ => 125,
        };
        Self::new(code, error)
    }

    /// A verb could not do what was asked: 1.
    #[cfg(target_os = "linux")]
    pub(crate) fn plain(message: impl fmt::Display) -> Self {
        Self::new(1, message)
    }

    /// The program could not be executed without a wrapper, with the same codes.
    #[cfg(target_os = "linux")]
    pub(crate) fn exec(program: &std::ffi::OsStr, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        const ENOEXEC: i32 = 8;
        let code = match error.kind() {
            // It is there: its interpreter is not.
            Kind::NotFound if std::path::Path::new(program).exists() => 126,
            Kind::NotFound => 127,
            Kind::PermissionDenied | Kind::IsADirectory => 126,
            _ if error.raw_os_error() == Some(ENOEXEC) => 126,
            _ => 125,
        };
        Self::new(
            code,
            format_args!("{} could not be executed: {error}", program.display()),
        )
    }

    fn new(code: u8, message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self { code, message }
    }

    /// Says it in one line on standard error.
    pub(crate) fn say(&self) {
        use std::io::Write as _;
        let line = format!("mcp-contain: {}\n", self.message.replace('\n', " "));
        // At once, or it may be mixed with another's. Nobody may be listening.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// The same, and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        self.say();
        ExitCode::from(self.code)
    }
}
