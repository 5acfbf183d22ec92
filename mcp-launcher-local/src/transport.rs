//! A server from a [`Command`], for rmcp's own service loop.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::Command as StdCommand;

use mcp_lifecycle_core::client::OwnedTransport;
use mcp_lifecycle_core::launch::{
    InheritEnv, LaunchContext, ServerLauncher, ServerSpec, ServerSpecBuilder,
};
use tokio::process::Command;

use crate::LocalLauncher;

impl LocalLauncher {
    /// Launches the program of a command as an rmcp transport that owns it, in the place of rmcp's
    /// `TokioChildProcess`.
    ///
    /// ```no_run
    /// use mcp_launcher_local::LocalLauncher;
    /// use mcp_lifecycle_core::rmcp::ServiceExt;
    /// use tokio::process::Command;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut command = Command::new("npx");
    /// command.args(["-y", "@modelcontextprotocol/server-memory"]);
    /// let transport = LocalLauncher::new().transport(command).await?;
    /// let outcome = transport.outcome();
    /// let service = ().serve(transport).await?;
    /// println!("{:?}", service.list_all_tools().await?);
    /// service.cancel().await?;
    /// println!("{}", outcome.await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Environment
    ///
    /// **The server gets the whole environment of the host**, with the command's own `env` and
    /// `env_remove`. A launch by a [`ServerSpec`] passes on a short list of names without secrets.
    ///
    /// **`env_clear` is ignored**: the standard library does not show it. Use a [`ServerSpec`] with
    /// [`InheritEnv::Nothing`]. Ignored are also the command's `Stdio`, user and group, process
    /// group and `pre_exec`.
    ///
    /// # Errors
    ///
    /// The [`LaunchError`](mcp_lifecycle_core::LaunchError) as [`io::ErrorKind::Other`], and
    /// [`io::ErrorKind::InvalidInput`] for a command that no [`ServerSpec`] can describe.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future leaves nothing of the server behind.
    pub async fn transport(&self, command: Command) -> io::Result<OwnedTransport> {
        let command = command.as_std();
        let name = name(command);
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let spec = describe(&name, command).build().map_err(invalid)?;
        let launched = self.launch(&spec, &LaunchContext::new()).await;
        let launched = launched.map_err(io::Error::other)?;
        Ok(OwnedTransport::new(name, launched))
    }
}

fn name(command: &StdCommand) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_stem().unwrap_or(program.as_os_str());
    match name.is_empty() {
        true => "server".to_owned(),
        false => name.to_string_lossy().into_owned(),
    }
}

fn describe(name: &str, command: &StdCommand) -> ServerSpecBuilder {
    let mut spec = ServerSpec::builder(name, command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        spec = spec.cwd(dir);
    }
    let mut removed = BTreeSet::new();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => spec = spec.env(name, value),
            None => drop(removed.insert(name)),
        }
    }
    if removed.is_empty() {
        return spec.inherit_env(InheritEnv::All);
    }
    spec = spec.inherit_env(InheritEnv::Nothing);
    for (name, _) in std::env::vars_os() {
        if !removed.contains(&*name) {
            spec = spec.pass_env(name);
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_described_with_the_hosts_environment() {
        let mut command = StdCommand::new("/usr/bin/some.server");
        command.args(["-y", "x"]).current_dir("/tmp").env("A", "b");
        let spec = describe(&name(&command), &command).build().unwrap();
        assert_eq!(spec.name(), "some");
        assert_eq!(spec.args(), ["-y", "x"]);
        assert_eq!(spec.cwd(), Some(Path::new("/tmp")));
        assert_eq!(spec.env().inherited(), InheritEnv::All);
        assert_eq!(spec.env().literals().count(), 1);
    }

    #[test]
    fn a_removed_variable_is_not_passed_on() {
        let mut command = StdCommand::new("server");
        command.env_remove("PATH");
        let spec = describe("server", &command).build().unwrap();
        assert_eq!(spec.env().inherited(), InheritEnv::Nothing);
        assert!(spec.env().passed().all(|name| name != "PATH"));
        assert_eq!(spec.env().passed().count() + 1, std::env::vars_os().count());
    }
}
