//! `run`: a server in place of this process.

mod size;
#[cfg(windows)]
mod windows;

use std::ffi::OsString;
use std::path::PathBuf;
#[cfg(not(windows))]
use std::process::ExitCode;
use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::containers::accompany;
#[cfg(not(windows))]
use crate::failure::Failure;
#[cfg(target_os = "linux")]
use crate::show::name;

/// A server, and how it is held.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Name of the server in lists
    #[arg(long)]
    pub(crate) name: Option<OsString>,
    /// Time between the steps of the end: end of input, SIGTERM, SIGKILL
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,
    /// Start no server unless at least this containment is available
    #[arg(long, value_name = "LEVEL")]
    pub(crate) require: Option<Level>,
    /// Memory that the server and all that it starts may use together: bytes, or with K, M, G or T. It is ended where it needs
    /// more, and not started where that cannot be set
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) memory: Option<u64>,
    /// Take PATH from the user's login shell, for the lookup and for the server
    #[arg(long, value_name = "WHOSE")]
    pub(crate) path: Option<PathOf>,
    /// Append the server's standard error to this file instead of sending it to the host
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// When the server ends, end the containers that it has started. The default, auto, does so where the server's
    /// command names docker, podman, nerdctl or testcontainers; `--containers` alone always; `--containers=never` never
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto", default_missing_value = "always")]
    pub(crate) containers: Containers,
    /// Let processes of this name stay when the server ends, with all below them: a daemon, a browser. `*` and `?` as in a
    /// shell; with a slash in it, the whole command line is meant. May be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub(crate) keep: Vec<OsString>,
    /// Do not set MCP_LIFECYCLE_ID in the server's environment, nor MCP_LIFECYCLE_KEEP
    #[arg(long)]
    pub(crate) no_mark: bool,
    /// Exit with 137 where the server died of SIGKILL: for the relay, to which a shim that dies of it proves nothing
    #[arg(long, hide = true)]
    pub(crate) sigkill_as_code: bool,
    /// Start the server at the first request that the cache cannot answer; reads messages
    #[arg(long)]
    pub(crate) lazy: bool,
    /// With --lazy: end the server after this much idle time. Default: 10 minutes for servers of
    /// 2026-07-28, never for older ones
    #[arg(long, value_name = "TIME", requires = "lazy", value_parser = humantime::parse_duration)]
    pub(crate) idle: Option<Duration>,
    /// Restart a server that exited by itself, at the next request; reads messages
    #[arg(long)]
    pub(crate) restart: bool,
    /// The server: a program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// Containment that a server has to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// A process that ends it when nobody else can
    Guardian,
    /// A guardian, and a cgroup for the server
    Cgroup,
    /// A guardian, and a PID namespace for the server, which it does not get otherwise; no cgroup is required
    Pidns,
}

/// The servers whose containers are ended with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Containers {
    /// Those whose command names a container engine
    Auto,
    /// All
    Always,
    /// None
    Never,
}

/// Owner of a `PATH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PathOf {
    /// The user's login shell
    Login,
}

/// The time that a shell has to say its `PATH`. A host waits for its server some ten times as long.
#[cfg(target_os = "linux")]
const SHELL_LIMIT: Duration = Duration::from_secs(5);

/// Starts the server. Returns only if that fails, or at the end of a relay.
#[cfg(target_os = "linux")]
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    use mcp_launcher_local::{Require, Wrapper};

    if options.lazy || options.restart {
        return crate::lazy::run(options);
    }
    let Some((program, args)) = options.command.split_first() else {
        return Err(Failure::wrapper("no program was named"));
    };
    let mut wrapper = Wrapper::new(program, args.iter().cloned());
    wrapper.name.clone_from(&options.name);
    wrapper.grace = options.grace;
    let words = options.command.iter();
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    wrapper.label = Some(name::of(&words, "?").into());
    wrapper.mark = !options.no_mark;
    wrapper.log.clone_from(&options.log);
    wrapper.memory = options.memory;
    wrapper.keep.clone_from(&options.keep);
    wrapper.sigkill_as_code = options.sigkill_as_code;
    wrapper.path = options.path.and_then(path);
    wrapper.require = match options.require {
        None => Require::Nothing,
        Some(Level::Guardian) => Require::Guardian,
        Some(Level::Cgroup) => Require::Cgroup,
        Some(Level::Pidns) => Require::PidNamespace,
    };
    accompany(options.containers, &mut wrapper)?;
    let error = wrapper.exec();
    if error.is_unavailable() {
        // Better a server that may be left behind than none; who disagrees says `--require`.
        let warning = format_args!("{} starts without containment: {error}", program.display());
        Failure::wrapper(warning).say();
        return Err(Failure::exec(program, &wrapper.exec_uncontained()));
    }
    Err(Failure::launch(&error))
}

/// The `PATH` of its owner; none if the owner does not say it, which one line tells.
#[cfg(target_os = "linux")]
pub(crate) fn path(PathOf::Login: PathOf) -> Option<OsString> {
    let path = mcp_launcher_local::login_path(SHELL_LIMIT);
    // The program may be found all the same.
    let said = |error: &_| Failure::wrapper(format_args!("the PATH is the host's: {error}")).say();
    path.inspect_err(said).ok()
}

#[cfg(windows)]
pub(crate) use windows::run;

/// There is no wrapper for this system.
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) fn run(_: &Options) -> Result<ExitCode, Failure> {
    Err(Failure::wrapper(
        "servers can be started on Linux and Windows only",
    ))
}
