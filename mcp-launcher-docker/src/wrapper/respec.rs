//! Replaces parts of a specification. Pure.

use std::ffi::{OsStr, OsString};

use mcp_lifecycle_core::launch::{ServerSpec, SpecError};

#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) command: Option<(OsString, Vec<OsString>)>,
    pub(super) engine: Vec<(&'static str, OsString)>,
}

pub(super) fn with(spec: &ServerSpec, changes: Changes) -> Result<ServerSpec, SpecError> {
    let (program, args) = match changes.command {
        Some((program, args)) => (Some(program), args),
        None => (spec.program().map(OsStr::to_owned), spec.args().to_vec()),
    };
    let mut new = match program {
        Some(program) => ServerSpec::builder(spec.name(), program),
        None => ServerSpec::builder_without_command(spec.name()),
    };
    new = new.args(args).inherit_env(spec.env().inherited());
    for name in spec.env().passed() {
        new = new.pass_env(name);
    }
    for (name, value) in spec.env().literals() {
        new = new.env(name, value);
    }
    for (name, value) in changes.engine {
        // DOCKER_HOST overrides DOCKER_CONTEXT and the CLI's current context.
        new = new.env(name, value);
    }
    if let Some(dir) = spec.cwd() {
        new = new.cwd(dir);
    }
    for (name, value) in spec.options() {
        new = new.option(name, value.clone());
    }
    new.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_else_stays() {
        let spec = ServerSpec::builder("s", "p")
            .args(["a", "b"])
            .env("A", "1")
            .pass_env("B")
            .inherit_env(mcp_lifecycle_core::launch::InheritEnv::Nothing)
            .cwd("/tmp")
            .option("o", 1.into())
            .build()
            .unwrap();
        assert_eq!(with(&spec, Changes::default()).unwrap(), spec);
        let changes = Changes {
            engine: vec![("DOCKER_HOST", "unix:///x".into())],
            ..Changes::default()
        };
        let host = with(&spec, changes).unwrap();
        let found = host.env().literals().find(|(n, _)| *n == "DOCKER_HOST");
        assert_eq!(found.unwrap().1, "unix:///x");
    }
}
