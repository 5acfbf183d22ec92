use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use mcp_lifecycle_core::launch::{InheritEnv, ServerSpec, SpecError};

/// A command to start on the other machine. Text only, as the protocol carries nothing else.
///
/// `Debug` shows the program and the names of variables, no values.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteCommand {
    /// The server's name, for logs.
    pub name: String,
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// The working directory there; the executor's own if `None`.
    pub cwd: Option<String>,
    /// The part of the *executor's* environment that is inherited.
    pub inherit: InheritEnv,
    /// Variables to set in addition.
    pub env: BTreeMap<String, String>,
}

impl RemoteCommand {
    /// Converts a server's specification.
    ///
    /// Literal variables are sent; variables passed by name have *this* host's values; inherited
    /// ones are the executor's, where `PATH` and `HOME` have a meaning.
    ///
    /// # Errors
    ///
    /// [`SpecError`] for a missing command, text that is not UTF-8, or any option.
    pub fn from_spec(spec: &ServerSpec) -> Result<Self, SpecError> {
        let program = spec.program().ok_or(SpecError::EmptyCommand)?;
        if let Some(name) = spec.options().keys().next() {
            return Err(SpecError::InvalidOption {
                name: name.clone(),
                problem: "the executor launcher has no options".to_owned(),
            });
        }
        let mut argv = vec![text("the program", program)?];
        for arg in spec.args() {
            argv.push(text("an argument", arg)?);
        }
        let cwd = match spec.cwd() {
            Some(dir) => Some(text("the working directory", dir.as_os_str())?),
            None => None,
        };
        let mut env = BTreeMap::new();
        for name in spec.env().passed() {
            if let Some(value) = std::env::var_os(name) {
                env.insert(
                    text("a variable's name", name)?,
                    text("a variable", &value)?,
                );
            }
        }
        for (name, value) in spec.env().literals() {
            env.insert(text("a variable's name", name)?, text("a variable", value)?);
        }
        Ok(Self {
            name: spec.name().to_owned(),
            argv,
            cwd,
            inherit: spec.env().inherited(),
            env,
        })
    }
}

impl fmt::Debug for RemoteCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCommand")
            .field("name", &self.name)
            .field("program", &self.argv.first())
            .field("cwd", &self.cwd)
            .field("inherit", &self.inherit)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .finish()
    }
}

fn text(what: &str, value: &OsStr) -> Result<String, SpecError> {
    OsString::from(value)
        .into_string()
        .map_err(|_| SpecError::InvalidOption {
            name: what.to_owned(),
            problem: "it is not UTF-8, which is all that an executor's protocol carries".to_owned(),
        })
}
