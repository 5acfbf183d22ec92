//! `stop`: the ladder by hand, with its proof.

mod containers;
mod meant;

use std::process::ExitCode;
use std::time::Duration;

use mcp_launcher_local::inventory::{self, KnownServer};
use serde_json::json;

use crate::failure::Failure;
use crate::ps;
use crate::show::text::printable;
use crate::show::{out, units};
use meant::{By, Called, SHOWN};

/// The server, and how long it is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's name, the pid of one of its processes, or its ID, in this order, as `ps` shows them
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
    let servers = ps::look()?.servers;
    let meant = find(&servers, options)?;
    let mut is_proven = true;
    let mut said = Vec::new();
    for server in meant {
        let name = ps::name_of(server);
        let before = containers::hold(server);
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
            report.unknown = before.and_then(containers::Before::containers_left);
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

/// Finds the one server that is meant, or all of a name.
fn find<'a>(
    servers: &'a [KnownServer],
    options: &Options,
) -> Result<Vec<&'a KnownServer>, Failure> {
    let wanted = &options.server;
    let called = servers.iter().map(|server| Called {
        name: ps::name_of(server),
        id: &server.id,
        pids: server.processes.iter().map(|it| it.pid).collect(),
    });
    let called: Vec<_> = called.collect();
    let Some((by, those)) = meant::meant(&called, wanted) else {
        return Err(Failure::plain(format_args!(
            "no server is called {wanted}, and there is none with this pid, or with an ID that begins with it (at least {SHOWN} digits); see `mcp-contain ps`"
        )));
    };
    let meant: Vec<_> = those.iter().filter_map(|at| servers.get(*at)).collect();
    let number = meant.len();
    if number == 1 || (by == By::Name && options.all) {
        return Ok(meant);
    }
    let ids: Vec<_> = meant.iter().map(|server| &*server.id).collect();
    let ids = ids.join(", ");
    Err(match by {
        By::Name => Failure::plain(format_args!(
            "{number} servers are called {wanted}: name one by its ID ({ids}), or give --all"
        )),
        By::Pid => Failure::plain(format_args!(
            "{number} servers have process {wanted}: name one by its ID ({ids})"
        )),
        By::Id => Failure::plain(format_args!(
            "{number} servers have an ID that begins with {wanted}: give more of it ({ids})"
        )),
    })
}
