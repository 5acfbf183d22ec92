use std::fmt;

/// The exit status of a server's main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExitStatus {
    /// The server exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// The kernel or the container engine ended it for lack of memory.
    OutOfMemory,
    /// The server has ended with an unknown status.
    Unknown,
}

impl ExitStatus {
    /// Returns whether it exited with code 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// Converts a code of the shell's convention, 128 + n for signal n, which container engines and
    /// remote executors use.
    pub fn from_shell_code(code: i64) -> Self {
        match i32::try_from(code) {
            Ok(code @ 129..=192) => Self::Signal(code - 128),
            Ok(code) => Self::Code(code),
            Err(_) => Self::Unknown,
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => match signal_name(signal) {
                Some(name) => write!(f, "signal {signal} ({name})"),
                None => write!(f, "signal {signal}"),
            },
            Self::OutOfMemory => f.write_str("killed for lack of memory"),
            Self::Unknown => f.write_str("unknown exit status"),
        }
    }
}

/// The numbers are the same on every supported Unix.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        6 => "SIGABRT",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_codes_name_the_signal() {
        assert_eq!(ExitStatus::from_shell_code(0), ExitStatus::Code(0));
        assert_eq!(ExitStatus::from_shell_code(137), ExitStatus::Signal(9));
        assert_eq!(ExitStatus::from_shell_code(255), ExitStatus::Code(255));
        assert_eq!(ExitStatus::from_shell_code(i64::MAX), ExitStatus::Unknown);
        assert_eq!(ExitStatus::Signal(9).to_string(), "signal 9 (SIGKILL)");
    }
}
