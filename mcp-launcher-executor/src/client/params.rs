use mcp_lifecycle_core::backend::fields::{environment, invalid, text};
use mcp_lifecycle_core::launch::{InheritEnv, ServerSpec, SpecError};

use crate::protocol::path_to_uri;
use crate::protocol::process::{EnvPolicy, Inherit, StartParams};

/// Converts a server's specification. Its identifier is still missing, and so is the working
/// directory if it has none.
///
/// Literal variables are sent; variables passed by name have *this* host's values; inherited ones
/// are the executor's, where `PATH` and `HOME` have a meaning.
pub(super) fn of(spec: &ServerSpec) -> Result<StartParams, SpecError> {
    let program = spec.program().ok_or(SpecError::EmptyCommand)?;
    if let Some(name) = spec.options().keys().next() {
        return Err(invalid(name, "the executor launcher has no options"));
    }
    let mut argv = vec![text("the program", program)?];
    for arg in spec.args() {
        argv.push(text("an argument", arg)?);
    }
    let cwd = spec.cwd().map(|dir| text("cwd", dir.as_os_str()));
    let inherit = match spec.env().inherited() {
        InheritEnv::All => Some(Inherit::All),
        InheritEnv::Nothing => None,
        _ => Some(Inherit::Core),
    };
    Ok(StartParams {
        argv,
        cwd: cwd
            .transpose()?
            .as_deref()
            .map_or_else(String::new, path_to_uri),
        env: environment(spec, |name| std::env::var_os(name))?,
        env_policy: inherit.map(|inherit| EnvPolicy {
            inherit,
            ignore_default_excludes: true,
            ..EnvPolicy::default()
        }),
        ..StartParams::default()
    })
}
