//! Programs that a test makes: copies for one that goes on as another user, and scripts.
//!
//! A work tree may lie in a directory that only its owner may enter, such as root's home.
//! Nobody else can run what was built there.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use tempfile::TempDir;

/// Tells a copy of a test where the copy of the fixture is.
const FIXTURE: &str = "MCP_TEST_FIXTURE";

/// Copies of this program and of the fixture that every user may run. Dropping it removes them.
#[derive(Debug)]
pub struct Copies(TempDir);

impl Copies {
    /// Copies this program and the fixture that was built at `fixture`.
    ///
    /// # Errors
    ///
    /// When a program cannot be read, or the system's temporary directory not be written.
    pub fn make(fixture: &Path) -> io::Result<Self> {
        let copies = Self(
            tempfile::Builder::new()
                .prefix("mcp-copies-")
                .permissions(fs::Permissions::from_mode(0o755))
                .tempdir()?,
        );
        for (program, copy) in [
            (&*env::current_exe()?, copies.test()),
            (fixture, copies.fixture()),
        ] {
            // A link takes no space and no time; there is none between file systems.
            if fs::hard_link(program, &copy).is_err() {
                finished(Command::new("cp").arg(program).arg(copy))?;
            }
        }
        Ok(copies)
    }

    /// A command that runs the copy of this program, in which [`fixture`] is the copy of that.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.test());
        command.env(FIXTURE, self.fixture()).current_dir("/");
        command
    }

    fn test(&self) -> PathBuf {
        self.0.path().join("test")
    }

    fn fixture(&self) -> PathBuf {
        self.0.path().join("mcp-fixture")
    }
}

/// Writes a file with this text and mode, which can be executed at once.
///
/// Another process writes it: no file is executed (`ETXTBSY`) that somebody has open for writing, and a
/// thread that forks meanwhile hands on what this process has open.
///
/// # Errors
///
/// When `sh` cannot be started, or the file not be written.
pub fn script(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        r#"printf %s "$1" >"$2" && chmod "$3" "$2""#,
        "sh",
        text,
    ]);
    finished(shell.arg(path).arg(format!("{mode:o}")))
}

fn finished(command: &mut Command) -> io::Result<()> {
    let status = command.stdin(Stdio::null()).status()?;
    let failed = || io::Error::other(format!("{command:?}: {status}"));
    status.success().then_some(()).ok_or_else(failed)
}

/// The fixture for this process to run: the one that was built at `built`, or its copy.
#[must_use]
pub fn fixture(built: &str) -> PathBuf {
    env::var_os(FIXTURE).map_or_else(|| built.into(), PathBuf::from)
}
