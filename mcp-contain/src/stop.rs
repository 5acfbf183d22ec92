//! `stop`: the ladder by hand, with its proof.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mcp_launcher_local::inventory::{self, KnownServer};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;

use crate::failure::Failure;
use crate::show::text::printable;
use crate::show::{out, units};
use crate::{containers, ps};

/// The longest time that a companion is waited for: less than the 15 s after which a shim gives it up, so that one that has ended
/// by then has heard that no container is left, or that there is no companion any more.
const COMPANION_LIMIT: Duration = Duration::from_secs(14);

/// Which server, and how long it is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's name, the beginning of its ID, or the pid of one of its processes, as `ps` shows them
    server: String,
    /// End all servers of this name
    #[arg(long)]
    all: bool,
    /// Time between SIGTERM and SIGKILL
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// Print JSON (docs/contain-operate.md)
    #[arg(long)]
    json: bool,
}

/// Ends it. The exit code is 0 with the proof that nothing is left, and 1 without.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let wanted = &options.server;
    let mut meant = ps::look()?.servers;
    meant.retain(|server| is_meant(server, wanted));
    if meant.is_empty() {
        return Err(Failure::plain(format_args!(
            "no server is called {wanted}; see `mcp-contain ps`"
        )));
    }
    if meant.len() > 1 && !options.all {
        let ids: Vec<_> = meant.iter().map(|server| &server.id[..8]).collect();
        let several = format_args!(
            "{} servers are called {wanted}: name one by its ID ({}), or give --all",
            meant.len(),
            ids.join(", ")
        );
        return Err(Failure::plain(several));
    }
    let mut is_proven = true;
    let mut said = Vec::new();
    for server in &meant {
        let name = ps::name_of(server);
        let shim = hold_shim(server);
        let mut report = match inventory::stop(server, options.grace) {
            Ok(report) => report,
            Err(error) => {
                is_proven = false;
                said.push(json!({"id": server.id, "name": name, "error": error.to_string()}));
                Failure::plain(format_args!("{name} was not ended: {error}")).say();
                continue;
            }
        };
        if report.is_gone() {
            report.unknown = shim.and_then(containers_left);
        }
        is_proven &= report.is_gone();
        let left: Vec<_> = report
            .survivors
            .iter()
            .map(|it| format!("{} ({})", it.pid, printable(&it.name)))
            .collect();
        said.push(json!({
            "id": server.id,
            "name": name,
            "asked": report.asked,
            "killed": report.killed,
            "gone": report.is_gone(),
            "survivors": report.survivors.iter().map(ps::process_as_json).collect::<Vec<_>>(),
            "unknown": report.unknown,
            "seconds": report.took.as_secs_f64(),
        }));
        if !options.json {
            let asked = units::count(
                report.asked,
                "process was asked to end",
                "processes were asked to end",
            );
            let end = match report.is_gone() {
                true => "nothing of it is left".to_owned(),
                false if left.is_empty() => {
                    let why = report.unknown.as_deref().unwrap_or_default();
                    format!(
                        "whether something of it is left is not known: {}",
                        printable(why)
                    )
                }
                false => format!("still there: {}", left.join(", ")),
            };
            out::line(format_args!(
                "{name}: {asked}, {} had to be killed, {end} ({})",
                report.killed,
                units::time(report.took)
            ));
        }
    }
    if options.json {
        out::line(format_args!(
            "{:#}",
            json!({"schema": "mcp-contain/stop/1", "servers": said})
        ));
    }
    Ok(ExitCode::from(u8::from(!is_proven)))
}

/// The shim of a server with a companion; none in it if it has ended.
fn hold_shim(server: &KnownServer) -> Option<Result<Option<OwnedFd>, Errno>> {
    let pid = i32::try_from(server.host.pid).ok().and_then(Pid::from_raw);
    let pid = pid.filter(|_| server.host.has_companion)?;
    Some(match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(shim) => Ok(Some(shim)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(Errno::from_raw(error.raw_os_error())),
    })
}

/// Why it is not known whether containers of a server live whose processes have gone.
fn containers_left(shim: Result<Option<OwnedFd>, Errno>) -> Option<String> {
    match shim {
        Err(error) => return Some(format!("its shim cannot be waited for: {error}")),
        Ok(Some(shim)) if !ends_within(&shim, COMPANION_LIMIT) => {
            let limit = units::time(COMPANION_LIMIT);
            return Some(format!(
                "its containers may live: what ends them has not said within {limit} that it has done so"
            ));
        }
        Ok(_) => {}
    }
    let left = containers::look();
    if let Some(unknown) = left.unknown.first() {
        let what = printable(&unknown.what.to_string());
        return Some(format!("{what} cannot be looked at: {}", unknown.why));
    }
    (!left.containers.is_empty()).then(|| {
        format!(
            "{} of dead hosts, which may be its, can be ended by `mcp-contain reap`",
            units::count(left.containers.len(), "container", "containers")
        )
    })
}

/// Waits for the end of a process.
fn ends_within(process: &OwnedFd, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, left) {
            Ok(ended) => return ended > 0,
            Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

fn is_meant(server: &KnownServer, wanted: &str) -> bool {
    let is_id = wanted.len() >= 4 && server.id.starts_with(wanted);
    let is_pid = || {
        wanted
            .parse()
            .is_ok_and(|pid: u32| server.processes.iter().any(|it| it.pid == pid))
    };
    is_id || ps::name_of(server) == wanted || is_pid()
}
