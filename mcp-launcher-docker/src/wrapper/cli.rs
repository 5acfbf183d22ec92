//! Clean-up by the command that started a container: for engines that only it can reach, and for
//! Podman, which has no daemon.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use mcp_lifecycle_core::launch::Remnant;
use tokio::process::Command;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub(super) struct Cli {
    pub(super) program: OsString,
    pub(super) globals: Vec<OsString>,
    /// The server's environment, which may name the engine, too.
    pub(super) env: Vec<(OsString, OsString)>,
    /// The server's working directory, for a relative program.
    pub(super) directory: Option<PathBuf>,
}

impl Cli {
    pub(super) async fn list(&self, label: &str) -> io::Result<Vec<Remnant>> {
        let filter = format!("label={label}");
        let format = "{{.ID}} {{.Names}}";
        let args = [
            "ps",
            "--all",
            "--no-trunc",
            "--filter",
            &filter,
            "--format",
            format,
        ];
        let text = self.run(args.map(OsStr::new)).await?;
        let remnant = |line: &str| {
            let (id, name) = line.split_once(' ').unwrap_or((line, ""));
            Remnant::container(id, name)
        };
        let lines = text.lines().map(str::trim);
        Ok(lines.filter(|line| !line.is_empty()).map(remnant).collect())
    }

    pub(super) async fn remove(&self, containers: &[Remnant]) -> io::Result<()> {
        let ids = containers.iter().map(|container| OsStr::new(&container.id));
        let args = ["rm", "--force", "--volumes"].map(OsStr::new);
        self.run(args.into_iter().chain(ids)).await.map(drop)
    }

    async fn run<'a>(&self, args: impl IntoIterator<Item = &'a OsStr>) -> io::Result<String> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.globals)
            .args(args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let output = match timeout(LIMIT, command.output()).await {
            Ok(output) => output?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(stderr.trim().to_owned()))
    }
}

/// Prints names of the environment only, since values are secrets.
impl fmt::Debug for Cli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Cli")
            .field("program", &self.program)
            .field("globals", &self.globals)
            .field("env", &names)
            .field("directory", &self.directory)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_the_environment_is_shown() {
        let cli = Cli {
            program: "docker".into(),
            globals: vec!["--debug".into()],
            env: vec![("TOKEN".into(), "hunter2".into())],
            directory: None,
        };
        let text = format!("{cli:?}");
        assert!(text.contains("TOKEN"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}
