//! `reap`: ends what dead hosts left, by identity only; and by choice what nobody keeps account of.

use std::process::ExitCode;

use mcp_launcher_local::LocalLauncher;
use mcp_launcher_local::inventory::{HostState, KnownServer};
use mcp_lifecycle_core::launch::{ReapReport, Remnant, ServerLauncher};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::show::text::printable;
use crate::show::{out, units};
use crate::{containers, foreign, ps};

/// The options of `reap`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Shows what would be ended, and ends nothing
    #[arg(long)]
    dry_run: bool,
    /// Show processes that look like servers left behind by hosts without containment (a guess); end them only with --yes
    #[arg(long)]
    foreign: bool,
    #[command(flatten)]
    guess: foreign::Guess,
    /// Prints JSON (docs/contain-operate.md)
    #[arg(long)]
    json: bool,
}

/// Ends them. The exit code is 1 if one is left, or something could not be looked at.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.foreign {
        let is_meant = options.guess.yes && !options.dry_run;
        return foreign::run(&options.guess, is_meant, options.json);
    }
    let mut orphans = ps::look()?.servers;
    orphans.retain(|server| server.host.state == HostState::Dead);
    if options.dry_run {
        show(&orphans, &containers::look(), options);
        return Ok(ExitCode::SUCCESS);
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
            report.unknown.iter().for_each(|it| {
                out::line(format_args!(
                    "not known: {} ({})",
                    printable(&it.what.to_string()),
                    it.why
                ))
            });
            out::line(format_args!(
                "{} ended, {} removed.",
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

fn show(orphans: &[KnownServer], containers: &Result<Vec<Remnant>, String>, options: &Options) {
    let found = containers.as_deref().unwrap_or_default();
    if options.json {
        let servers: Vec<_> = orphans.iter().map(ps::server_as_json).collect();
        out::line(format_args!(
            "{:#}",
            json!({"schema": "mcp-contain/reap/1", "dry_run": true, "orphans": servers, "containers": texts(found), "containers_unknown": containers.as_ref().err()})
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
    for container in found {
        out::line(format_args!("{}", printable(&container.to_string())));
    }
    if let Err(why) = containers {
        out::line(format_args!("not known: containers ({why})"));
    }
    let servers = units::count(orphans.len(), "server", "servers");
    let containers = units::count(found.len(), "container", "containers");
    out::line(format_args!(
        "{servers} and {containers} of dead hosts would be ended."
    ));
}

fn texts(remnants: &[Remnant]) -> Vec<String> {
    remnants.iter().map(Remnant::to_string).collect()
}

fn as_json(report: &ReapReport) -> Value {
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
