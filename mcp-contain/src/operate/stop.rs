//! `stop`: the termination ladder by hand, with its proof.

mod containers;
mod meant;

use std::process::ExitCode;
use std::time::Duration;

use mcp_tree::inventory::{self, KnownServer};
use serde_json::json;

use super::ps;
use crate::failure::Failure;
use crate::show::text::one_line;
use crate::show::{out, units};
use meant::{By, Called, SHOWN};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's name, one of its pids, or its ID, as `ps` shows them, tried in this order
    server: String,
    /// End all servers of this name
    #[arg(long)]
    all: bool,
    /// Time between SIGTERM and SIGKILL
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::options::time)]
    grace: Duration,
    /// Print JSON
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
            .map(|it| format!("{} ({})", it.pid, one_line(&it.name)))
            .collect();
        let mut end = ps::report_as_json(&report);
        end["id"] = server.id.clone().into();
        end["name"] = name.clone().into();
        end["seconds"] = report.took.as_secs_f64().into();
        said.push(end);
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
                        one_line(why)
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
        out::json(&json!({"schema": "mcp-contain/stop/1", "servers": said}));
    }
    Ok(ExitCode::from(u8::from(!is_proven)))
}

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
    let (what, how) = match by {
        By::Name => ("are called", "name one by its ID, or give --all"),
        By::Pid => ("have process", "name one by its ID"),
        By::Id => ("have an ID that begins with", "give more of it"),
    };
    let why = format_args!("{number} servers {what} {wanted}: {how} ({ids})");
    Err(Failure::plain(why))
}
