//! [`RemoteCommand`]: what to start, in terms of the other machine.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use mcp_lifecycle_core::launch::{InheritEnv, ServerSpec, SpecError};

/// A command to start on the other machine. Text only: that is all the wire carries.
///
/// `Debug` shows the program and the names of variables, no values.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteCommand {
    /// The server's name, for logs.
    pub name: String,
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// The working directory there; the executor's own when `None`.
    pub cwd: Option<String>,
    /// The part of the *executor's* environment that is inherited.
    pub inherit: InheritEnv,
    /// Variables that are set on top.
    pub env: BTreeMap<String, String>,
    /// Labels that the machine must have: the business of an
    /// [`ExecutorSet`](crate::ExecutorSet). An executor that is one machine
    /// refuses any.
    pub labels: BTreeMap<String, String>,
}

impl RemoteCommand {
    /// The command of a server's specification.
    ///
    /// Literal variables go over; variables passed by name take *this* host's
    /// values; what is inherited is taken from the executor, where `PATH` and
    /// `HOME` mean something.
    ///
    /// # Errors
    ///
    /// [`SpecError`] when there is no command, something is not UTF-8, or there
    /// is an option other than `labels`, an object of strings.
    pub fn from_spec(spec: &ServerSpec) -> Result<Self, SpecError> {
        let program = spec.program().ok_or(SpecError::EmptyCommand)?;
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
            labels: labels(spec)?,
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
            .field("labels", &self.labels)
            .finish()
    }
}

/// The option `labels` of a specification, the only one there is.
fn labels(spec: &ServerSpec) -> Result<BTreeMap<String, String>, SpecError> {
    let invalid = |name: &str, problem: &str| SpecError::InvalidOption {
        name: name.to_owned(),
        problem: problem.to_owned(),
    };
    let mut labels = BTreeMap::new();
    for (name, value) in spec.options() {
        if name != "labels" {
            return Err(invalid(name, "the executor launcher knows `labels` only"));
        }
        let problem = "an object is wanted, with a text for each label";
        for (label, value) in value.as_object().ok_or_else(|| invalid(name, problem))? {
            let value = value.as_str().ok_or_else(|| invalid(name, problem))?;
            labels.insert(label.clone(), value.to_owned());
        }
    }
    Ok(labels)
}

fn text(what: &str, value: &OsStr) -> Result<String, SpecError> {
    OsString::from(value)
        .into_string()
        .map_err(|_| SpecError::InvalidOption {
            name: what.to_owned(),
            problem: "it is not UTF-8, which is all that an executor's protocol carries".to_owned(),
        })
}
