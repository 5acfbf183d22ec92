//! `stop`: the ladder by hand, with its proof.

use std::process::ExitCode;
use std::time::Duration;

use mcp_launcher_local::inventory::{self, KnownServer};
use serde_json::json;

use crate::failure::Failure;
use crate::ps;
use crate::show::text::printable;
use crate::show::{out, units};

/// Which server, and how long it is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Its name, the beginning of its ID, or the number of one of its processes, as `ps` shows them
    server: String,
    /// Ends all that are called so
    #[arg(long)]
    all: bool,
    /// Time that it has to end when it is asked to, before it is killed
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// Prints JSON (docs/contain-operate.md)
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
        let report = match inventory::stop(server, options.grace) {
            Ok(report) => report,
            Err(error) => {
                is_proven = false;
                said.push(json!({"id": server.id, "name": name, "error": error.to_string()}));
                Failure::plain(format_args!("{name} was not ended: {error}")).say();
                continue;
            }
        };
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
                    "whether something of it is left is not known".to_owned()
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

fn is_meant(server: &KnownServer, wanted: &str) -> bool {
    let is_id = wanted.len() >= 4 && server.id.starts_with(wanted);
    let is_pid = || {
        wanted
            .parse()
            .is_ok_and(|pid: u32| server.processes.iter().any(|it| it.pid == pid))
    };
    is_id || ps::name_of(server) == wanted || is_pid()
}
