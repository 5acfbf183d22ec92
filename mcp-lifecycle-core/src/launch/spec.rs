use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use super::error::reject_nul;
use super::{EnvPolicy, InheritEnv, SpecError};
use crate::launch::macros::debug_fields;

/// A server to start: a command, its environment and its working directory.
///
/// Always valid, as far as that can be checked without touching the machine. `Debug` shows no values
/// of the environment.
///
/// ```
/// use mcp_lifecycle_core::ServerSpec;
///
/// let spec = ServerSpec::builder("time", "uvx")
///     .arg("mcp-server-time")
///     .env("TZ", "Europe/Paris")
///     .pass_env("HTTPS_PROXY")
///     .build()?;
/// assert_eq!(spec.display_command().to_string(), "uvx mcp-server-time");
/// # Ok::<(), mcp_lifecycle_core::launch::SpecError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSpec {
    name: String,
    program: Option<OsString>,
    args: Vec<OsString>,
    env: EnvPolicy,
    cwd: Option<PathBuf>,
    options: serde_json::Map<String, serde_json::Value>,
}

impl ServerSpec {
    /// Begins the description of the server `name`, run by `program`: without a slash it is searched
    /// for in the server's `PATH`, with one it is relative to the server's working directory.
    pub fn builder(name: impl Into<String>, program: impl Into<OsString>) -> ServerSpecBuilder {
        ServerSpecBuilder::new(name.into(), Some(program.into()))
    }

    /// Begins the description of a server without a command, as for a container image with an entry
    /// point.
    pub fn builder_without_command(name: impl Into<String>) -> ServerSpecBuilder {
        ServerSpecBuilder::new(name.into(), None)
    }

    /// Begins a description that differs from this one.
    pub fn to_builder(&self) -> ServerSpecBuilder {
        ServerSpecBuilder {
            spec: self.clone(),
            rejected: None,
        }
    }

    /// Returns the server's name, for logs, reports and people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the program, unless the launcher determines it.
    pub fn program(&self) -> Option<&OsStr> {
        self.program.as_deref()
    }

    /// Returns the arguments after the program.
    pub fn args(&self) -> &[OsString] {
        &self.args
    }

    /// Returns the server's environment.
    pub fn env(&self) -> &EnvPolicy {
        &self.env
    }

    /// Returns the working directory; the host's own if `None`.
    pub fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    /// Returns launcher-specific options: an image, mounts.
    pub fn options(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.options
    }
}

impl Hash for ServerSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.program.hash(state);
        self.args.hash(state);
        self.env.literals().for_each(|literal| literal.hash(state));
    }
}

debug_fields!(
    ServerSpec,
    it {
        name: &it.name,
        command: &format_args!("{}", it.display_command()),
        env: &it.env,
        cwd: &it.cwd,
        options: &it.options.keys().collect::<Vec<_>>()
    }
);

/// Builds a [`ServerSpec`].
#[derive(Debug, Clone)]
#[must_use = "nothing is described until `build`"]
pub struct ServerSpecBuilder {
    spec: ServerSpec,
    rejected: Option<SpecError>,
}

crate::setters! { ServerSpecBuilder:
    /// Replaces the program and its arguments.
    command(program: impl Into<OsString>, args: Vec<OsString>) |it| {
        it.spec.program = Some(program.into());
        it.spec.args = args;
    };
    /// Adds an argument.
    arg(arg: impl Into<OsString>) |it| it.spec.args.push(arg.into());
    /// Adds arguments.
    args(args: impl IntoIterator<Item = impl Into<OsString>>) |it| {
        it.spec.args.extend(args.into_iter().map(Into::into));
    };
    /// Sets an environment variable for the server.
    env(name: impl Into<OsString>, value: impl Into<OsString>) |it| it.spec.env.set.insert(name.into(), value.into());
    /// Passes a variable of the host's environment, if it is set.
    pass_env(name: impl Into<OsString>) |it| it.spec.env.pass.insert(name.into());
    /// Sets which other variables the server inherits.
    inherit_env(inherit: InheritEnv) |it| it.spec.env.inherit = inherit;
    /// Sets the working directory.
    cwd(dir: impl Into<PathBuf>) |it| it.spec.cwd = Some(dir.into());
    /// Sets a launcher-specific option.
    option(name: impl Into<String>, value: serde_json::Value) |it| it.spec.options.insert(name.into(), value);
    /// Makes [`build`](Self::build) fail with the first error given here.
    reject(error: SpecError) |it| it.rejected.get_or_insert(error);
}

impl ServerSpecBuilder {
    fn new(name: String, program: Option<OsString>) -> Self {
        Self {
            spec: ServerSpec {
                name,
                program,
                args: Vec::new(),
                env: EnvPolicy::default(),
                cwd: None,
                options: serde_json::Map::new(),
            },
            rejected: None,
        }
    }

    /// Validates and builds.
    ///
    /// # Errors
    ///
    /// [`SpecError`] for an empty name or command, a NUL byte anywhere, `=` or nothing in the name
    /// of an environment variable, and the error of [`reject`](Self::reject).
    pub fn build(self) -> Result<ServerSpec, SpecError> {
        if let Some(error) = self.rejected {
            return Err(error);
        }
        let ServerSpec {
            name,
            program,
            args,
            env,
            cwd,
            ..
        } = &self.spec;
        if name.is_empty() {
            return Err(SpecError::EmptyName);
        }
        if let Some(program) = program {
            if program.is_empty() {
                return Err(SpecError::EmptyCommand);
            }
            reject_nul("the command", program)?;
        }
        for arg in args {
            reject_nul("an argument", arg)?;
        }
        if let Some(cwd) = cwd {
            reject_nul("the working directory", cwd.as_os_str())?;
        }
        env.validate()?;
        Ok(self.spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_specifications_are_told_apart() {
        let build = |program: &str| ServerSpec::builder("s", program).build();
        assert_eq!(build("").unwrap_err(), SpecError::EmptyCommand);
        assert!(matches!(
            build("a\0b").unwrap_err(),
            SpecError::NulByte { .. }
        ));
        let env = |name: &str| ServerSpec::builder("s", "p").env(name, "v").build();
        assert!(matches!(
            env("A=B").unwrap_err(),
            SpecError::InvalidEnvName { .. }
        ));
        assert!(matches!(
            env("").unwrap_err(),
            SpecError::InvalidEnvName { .. }
        ));
        assert!(matches!(
            env("A\0").unwrap_err(),
            SpecError::InvalidEnvName { .. }
        ));
        let value = ServerSpec::builder("s", "p").env("A", "v\0").build();
        assert!(matches!(value.unwrap_err(), SpecError::NulByte { .. }));
        assert_eq!(
            ServerSpec::builder("", "p").build().unwrap_err(),
            SpecError::EmptyName
        );
    }

    #[test]
    fn debug_shows_no_value_of_the_environment() {
        let spec = ServerSpec::builder("s", "p")
            .env("API_KEY", "hunter2")
            .args(["--token", "hunter2", "--password=hunter2"])
            .build()
            .unwrap();
        let text = format!("{spec:?}");
        assert!(text.contains("API_KEY"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}
