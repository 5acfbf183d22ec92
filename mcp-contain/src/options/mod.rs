//! Options of a server, and how their values are written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::failure::Failure;

/// A server and its containment.
#[derive(Debug, clap::Parser)]
#[command(group = clap::ArgGroup::new("relay").args(["lazy", "restart"]).multiple(true))]
pub(crate) struct Options {
    /// Name of the server in lists
    #[arg(long)]
    pub(crate) name: Option<OsString>,
    /// Time between the steps of ending the server: end of input, SIGTERM, SIGKILL
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    pub(crate) grace: Duration,
    /// Refuse to start the server if it cannot be contained at least in this way
    #[arg(long, value_name = "LEVEL")]
    pub(crate) require: Option<Level>,
    /// Memory that the server and everything it starts may use together, such as 512M (K, M, G and T are powers of 1024). If
    /// they need more, the kernel kills them; if the limit cannot be set, the server is not started
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    pub(crate) memory: Option<u64>,
    /// Processes and threads that they may be at a time; they cannot start more
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) pids: Option<u64>,
    /// Processors that they may use together, such as 0.5
    #[arg(long, value_name = "NUMBER", value_parser = cpus)]
    pub(crate) cpus: Option<u64>,
    /// Keep the server from signalling or tracing anything but what it has started, and from changing cgroups; refuse to start it
    /// where the kernel cannot (Linux 6.12). For it, sudo, setuid programs, ping and mounts do not work
    #[arg(long, conflicts_with = "group")]
    pub(crate) hardened: bool,
    /// Let the server write only below this directory, or this file; reading stays free. May be given more than once. `default` is
    /// the working directory, TMPDIR and the cache of npx or uvx. Where the kernel cannot (Linux 6.2), the server is not started
    #[arg(long, value_name = "DIR", conflicts_with = "group")]
    pub(crate) write: Vec<PathBuf>,
    /// Take PATH from the user's login shell, to find PROGRAM and for the server; useful if the host is started from a desktop
    #[arg(long, value_name = "WHOSE")]
    pub(crate) path: Option<PathOf>,
    /// Append the server's standard error to this file instead of sending it to the host. A file of more than 10 MiB is first renamed to FILE.1
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Append a line of JSON to this file, or to the open descriptor of this number, when the server has started, and another one
    /// with how it ended and the proof
    #[arg(long, value_name = "FD|FILE")]
    pub(crate) report: Option<OsString>,
    /// End the containers that the server has started when it ends; without a value: always
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto", default_missing_value = "always")]
    pub(crate) containers: Containers,
    /// Leave processes of this name running when the server ends, with everything below them: a daemon, a browser. `*` and `?`
    /// match as in a shell; a pattern with a slash is compared with the whole command line. May be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub(crate) keep: Vec<OsString>,
    /// Before the start, wait up to 30 s until nothing is left of an earlier server with the same command that lost its host;
    /// fail if something is. One that is in use is left alone
    #[arg(long, conflicts_with = "group")]
    pub(crate) exclusive: bool,
    /// Leave `npx`, `npm exec`, `uvx` and `uv tool run` to start the package each time
    #[arg(long)]
    pub(crate) no_direct: bool,
    /// The time for which a package is started again without the runner that has looked it up
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = time)]
    pub(crate) direct_age: Duration,
    /// Do not set MCP_LIFECYCLE_ID and MCP_LIFECYCLE_KEEP in the server's environment, by which its processes are found anywhere
    #[arg(long)]
    pub(crate) no_mark: bool,
    /// Contain the server by a process group alone, as on macOS
    #[arg(long)]
    pub(crate) group: bool,
    /// Run as the shim of a relay: relay nothing, query no PATH, and exit with 137 if the server died of SIGKILL
    #[arg(long, hide = true)]
    pub(crate) sigkill_as_code: bool,
    #[arg(skip)]
    pub(crate) in_foreground: bool,
    /// Start the server only when a request needs it: until then, a cache answers the handshake and the lists
    #[arg(long)]
    pub(crate) lazy: bool,
    /// With --lazy: end the server after this time without use. Default: 10m for servers of
    /// protocol revision 2026-07-28, never for older ones
    #[arg(long, value_name = "TIME", requires = "lazy", value_parser = time)]
    pub(crate) idle: Option<Duration>,
    /// Start the server again, at the next request, after it exited by itself
    #[arg(long)]
    pub(crate) restart: bool,
    /// With --restart or --lazy: start the server again when this file, or one below this directory, has changed. Hidden files,
    /// `node_modules`, `target` and `__pycache__` are left out. May be given more than once
    #[arg(long, value_name = "PATH", requires = "relay")]
    pub(crate) watch: Vec<PathBuf>,
    /// The server: a program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// A required level of containment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// A process group, which ends with the host and with mcp-contain
    Group,
    /// A guardian process ends all of it, even if the host and mcp-contain are killed
    Guardian,
    /// The same, and a cgroup, so that no process escapes
    Cgroup,
    /// A guardian and a PID namespace, which only this option creates; no cgroup is needed
    Pidns,
}

/// The servers with tracked containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Containers {
    /// If PROGRAM or its arguments name docker, podman, nerdctl or testcontainers
    Auto,
    /// For every server
    Always,
    /// For no server
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PathOf {
    /// The user's login shell
    Login,
}

/// Parses a number of processors, in thousandths.
fn cpus(text: &str) -> Result<u64, &'static str> {
    match text.parse::<f64>() {
        // The kernel takes no less than a hundredth.
        Ok(number @ 0.01..=100_000.0) => Ok((number * 1000.0) as u64),
        _ => Err("a number of processors is at least 0.01"),
    }
}

/// Returns the name that a server gets by these words of this program.
#[cfg(target_os = "linux")]
pub(crate) fn name_in(words: &[String]) -> Option<String> {
    let (program, words) = words.split_first()?;
    let words = words.strip_prefix(&["run".to_owned()]).unwrap_or(words);
    let words = [program].into_iter().chain(words).map(OsString::from);
    let options: Options = clap::Parser::try_parse_from(words.collect::<Vec<_>>()).ok()?;
    Some(options.name?.to_string_lossy().into_owned())
}

pub(crate) fn time(text: &str) -> Result<Duration, &'static str> {
    humantime::parse_duration(text)
        .map_err(|_| "a time is a number with a unit, such as 500ms, 2s or 10m")
}

/// Time limit for the shell to print its `PATH`. A host waits for its server some ten times as
/// long.
#[cfg(target_os = "linux")]
const SHELL_LIMIT: Duration = Duration::from_secs(5);

/// Returns the owner's `PATH`. If that fails, reports it and returns `None`.
#[cfg(target_os = "linux")]
pub(crate) fn path(PathOf::Login: PathOf) -> Option<OsString> {
    let path = mcp_tree::login_path(SHELL_LIMIT);
    // The program may still be found.
    let said = |error: &_| Failure::wrapper(format_args!("the PATH is the host's: {error}")).say();
    path.inspect_err(said).ok()
}

const LEAST: u64 = 1 << 20;

/// Parses bytes, with K, M, G or T as powers of 1024. `MB` and `MiB` mean `M`.
fn parse(text: &str) -> Result<u64, &'static str> {
    const HOW: &str = "a size is a whole number with K, M, G or T after it, such as 512M";
    match mcp_lifecycle_core::size::parse(text).ok_or(HOW)? {
        ..LEAST => Err("no server starts with less than 1M"),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_with_a_unit_of_1024() {
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("512mb"), Ok(512 << 20));
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert_eq!(parse("1t"), Ok(1 << 40));
        assert_eq!(parse("2048k"), Ok(2 << 20));
        assert_eq!(parse("1048576"), Ok(1 << 20));
        assert_eq!(parse("1048576B"), Ok(1 << 20));
    }

    #[test]
    fn processors_are_numbers_with_a_fraction() {
        assert_eq!(cpus("0.5"), Ok(500));
        assert_eq!(cpus("2"), Ok(2000));
        assert_eq!(cpus("0.01"), Ok(10));
        for text in ["", "0", "0.009", "-1", "x", "nan", "inf", "1e9"] {
            assert!(cpus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "M",
            "-1M",
            "1.5G",
            "1 G",
            "512X",
            "512MM",
            "0",
            "10",
            "1023K",
            "99999999999999999999",
            "99999999T",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
