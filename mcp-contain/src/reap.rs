//! `reap`: ends what dead hosts left, by identity only.

use std::process::ExitCode;

use mcp_launcher_local::LocalLauncher;
use mcp_launcher_local::inventory::{HostState, KnownServer};
use mcp_lifecycle_core::launch::{ReapReport, Remnant, ServerLauncher};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::ps;
use crate::show::text::printable;
use crate::show::{out, units};

/// Whether it is done or shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Shows what would be ended, and ends nothing
    #[arg(long)]
    dry_run: bool,
    /// Prints JSON (docs/contain-operate.md)
    #[arg(long)]
    json: bool,
}

/// Ends them. The exit code is 1 if one is left, or something could not be looked at.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut orphans = ps::look()?.servers;
    orphans.retain(|server| server.host.state == HostState::Dead);
    if options.dry_run {
        show(&orphans, options);
        return Ok(ExitCode::SUCCESS);
    }
    let failed = |why: &dyn std::fmt::Display| {
        Failure::plain(format_args!("orphans were not searched for: {why}"))
    };
    let report =
        crate::block_on(LocalLauncher::new().reap_orphans()).map_err(|error| failed(&error))?;
    let report = report.map_err(|error| failed(&error))?;
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
            report.unknown.iter().for_each(|it| {
                out::line(format_args!(
                    "not known: {} ({})",
                    printable(&it.what.to_string()),
                    it.why
                ))
            });
            out::line(format_args!(
                "{} ended.",
                units::count(report.ended.len(), "process was", "processes were")
            ));
        }
    }
    let is_clean = report.failed.is_empty() && report.is_complete();
    Ok(ExitCode::from(u8::from(!is_clean)))
}

fn show(orphans: &[KnownServer], options: &Options) {
    if options.json {
        let servers: Vec<_> = orphans.iter().map(ps::server_as_json).collect();
        out::line(format_args!(
            "{:#}",
            json!({"schema": "mcp-contain/reap/1", "dry_run": true, "orphans": servers})
        ));
        return;
    }
    for server in orphans {
        let processes = units::count(server.processes.len(), "process", "processes");
        let (name, memory) = (ps::name_of(server), units::size(server.memory()));
        out::line(format_args!(
            "{name} of host {}: {processes}, {memory}",
            server.host.pid
        ));
    }
    let orphans = units::count(orphans.len(), "server", "servers");
    out::line(format_args!("{orphans} of dead hosts would be ended."));
}

fn as_json(report: &ReapReport) -> Value {
    let texts = |remnants: &[Remnant]| remnants.iter().map(Remnant::to_string).collect::<Vec<_>>();
    let unknown = report.unknown.iter();
    let unknown = unknown.map(|it| json!({"what": it.what.to_string(), "why": it.why}));
    json!({
        "schema": "mcp-contain/reap/1",
        "dry_run": false,
        "ended": texts(&report.ended),
        "failed": texts(&report.failed),
        "spared": texts(&report.spared),
        "unknown": unknown.collect::<Vec<_>>(),
    })
}
