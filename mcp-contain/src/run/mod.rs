//! `run`: a server in place of this process.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use crate::failure::Failure;

/// A server, and how it is held.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What to call the server in lists
    #[arg(long)]
    pub(crate) name: Option<OsString>,
    /// Time that the server has to end when it is asked to, before it is killed
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,
    /// Do without the server rather than with less than this
    #[arg(long, value_name = "LEVEL")]
    pub(crate) require: Option<Level>,
    /// Put nothing into the server's environment
    #[arg(long)]
    pub(crate) no_mark: bool,
    /// The server: a program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// What has to hold a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// A process that ends it when nobody else can
    Guardian,
    /// The same, and a cgroup of its own
    Cgroup,
    /// The same, and a PID namespace of its own
    Pidns,
}

/// Starts the server. Returns only if that fails.
#[cfg(target_os = "linux")]
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    use std::os::unix::process::CommandExt as _;

    use mcp_launcher_local::{Require, Wrapper};

    let Some((program, args)) = options.command.split_first() else {
        return Err(Failure::wrapper("no program was named"));
    };
    let mut wrapper = Wrapper::new(program, args.iter().cloned());
    wrapper.name.clone_from(&options.name);
    wrapper.grace = options.grace;
    wrapper.mark = !options.no_mark;
    wrapper.require = match options.require {
        None => Require::Nothing,
        Some(Level::Guardian) => Require::Guardian,
        Some(Level::Cgroup) => Require::Cgroup,
        Some(Level::Pidns) => Require::PidNamespace,
    };
    let error = wrapper.exec();
    if error.is_unavailable() {
        // Better a server that may be left behind than none; who disagrees says `--require`.
        let warning = format_args!("{} starts without containment: {error}", program.display());
        Failure::wrapper(warning).say();
        let mut bare = std::process::Command::new(program);
        let error = bare.args(args).exec();
        return Err(Failure::exec(program, &error));
    }
    Err(Failure::launch(&error))
}

/// There is no wrapper for this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &Options) -> Result<ExitCode, Failure> {
    Err(Failure::wrapper("servers can be started on Linux only"))
}
