//! `reap`: ends what dead hosts left, by identity only; and by choice what nobody keeps account of.

use std::process::ExitCode;

use mcp_launcher_local::LocalLauncher;
use mcp_launcher_local::inventory::HostState;
use mcp_lifecycle_core::launch::{ReapReport, Remnant, ServerLauncher};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::show::text::printable;
use crate::show::{out, units, unknown};
use crate::{containers, foreign, ps};

/// The options of `reap`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Show what would be ended, and end nothing
    #[arg(long)]
    dry_run: bool,
    /// Show processes that look like servers left behind by hosts without containment (a guess); end them only with --yes
    #[arg(long)]
    foreign: bool,
    #[command(flatten)]
    guess: foreign::Guess,
    /// Print JSON (docs/contain-operate.md)
    #[arg(long)]
    json: bool,
}

/// Ends them. The exit code is 1 if one is left, or something could not be looked at.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.foreign {
        let is_meant = options.guess.yes && !options.dry_run;
        return foreign::run(&options.guess, is_meant, options.json);
    }
    if options.dry_run {
        return show(options);
    }
    let failed = |why: &dyn std::fmt::Display| {
        Failure::plain(format_args!("orphans were not searched for: {why}"))
    };
    let report =
        crate::block_on(LocalLauncher::new().reap_orphans()).map_err(|error| failed(&error))?;
    let mut report = report.map_err(|error| failed(&error))?;
    let processes = report.ended.len();
    containers::end(&mut report);
    match options.json {
        true => out::line(format_args!("{:#}", as_json(&report))),
        false => {
            for (what, remnants) in [
                ("ended", &report.ended),
                ("still there", &report.failed),
                ("spared", &report.spared),
            ] {
                remnants.iter().for_each(|it| {
                    out::line(format_args!("{what}: {}", printable(&it.to_string())))
                });
            }
            unknown::lines(&report.unknown).for_each(|line| out::line(format_args!("{line}")));
            let incomplete = match report.unknown.is_empty() {
                true => "",
                false => " Not everything could be looked at.",
            };
            out::line(format_args!(
                "{} ended, {} removed.{incomplete}",
                units::count(processes, "process was", "processes were"),
                units::count(
                    report.ended.len() - processes,
                    "container was",
                    "containers were"
                )
            ));
        }
    }
    let is_clean = report.failed.is_empty() && report.is_complete();
    Ok(ExitCode::from(u8::from(!is_clean)))
}

/// Names them. The exit code is 1 if something could not be looked at.
fn show(options: &Options) -> Result<ExitCode, Failure> {
    let seen = ps::look()?;
    let mut orphans = seen.servers;
    orphans.retain(|server| server.host.state == HostState::Dead);
    let containers = containers::look();
    let found = &containers.containers;
    let mut unknown = seen.unknown;
    unknown.extend(containers.unknown);
    let code = ExitCode::from(u8::from(!unknown.is_empty()));
    if options.json {
        let servers: Vec<_> = orphans.iter().map(ps::server_as_json).collect();
        out::line(format_args!(
            "{:#}",
            json!({
                "schema": "mcp-contain/reap/1",
                "dry_run": true,
                "orphans": servers,
                "containers": texts(found),
                "unknown": unknown::as_json(&unknown),
            })
        ));
        return Ok(code);
    }
    for server in &orphans {
        let processes = units::count(server.processes.len(), "process", "processes");
        let (name, memory) = (ps::name_of(server), units::size(server.memory()));
        out::line(format_args!(
            "{name} of host {}: {processes}, {memory}",
            server.host.pid
        ));
    }
    for container in found {
        out::line(format_args!("{}", printable(&container.to_string())));
    }
    unknown::lines(&unknown).for_each(|line| out::line(format_args!("{line}")));
    let servers = units::count(orphans.len(), "server", "servers");
    let containers = units::count(found.len(), "container", "containers");
    out::line(format_args!(
        "{servers} and {containers} of dead hosts would be ended{}.",
        match unknown.is_empty() {
            true => "",
            false => "; not everything could be looked at",
        }
    ));
    Ok(code)
}

fn texts(remnants: &[Remnant]) -> Vec<String> {
    remnants.iter().map(Remnant::to_string).collect()
}

fn as_json(report: &ReapReport) -> Value {
    json!({
        "schema": "mcp-contain/reap/1",
        "dry_run": false,
        "ended": texts(&report.ended),
        "failed": texts(&report.failed),
        "spared": texts(&report.spared),
        "unknown": unknown::as_json(&report.unknown),
    })
}
