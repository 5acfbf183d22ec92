//! `reap`: ends leftovers of dead hosts by identity; with `--foreign` those without identity.

use std::process::ExitCode;

use mcp_lifecycle_core::launch::ReapReport;
use mcp_tree::orphans;
use serde_json::{Value, json};

use super::left::{Left, texts, unless};
use super::{foreign, ps};
use crate::containers;
use crate::failure::Failure;
use crate::show::text::one_line;
use crate::show::{out, units, unknown};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Show what would be ended, and end nothing
    #[arg(long)]
    dry_run: bool,
    /// Show servers that programs without mcp-contain seem to have left behind (a guess); with --yes, end them
    #[arg(long)]
    foreign: bool,
    #[command(flatten)]
    guess: foreign::Guess,
    /// Stop looking for containers at this engine if its socket is gone, such as unix:///run/old.sock
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["dry_run", "foreign"])]
    forget: Option<String>,
    /// Also name what is spared
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "foreign")]
    json: bool,
}

const NOTHING: &str = "Nothing was left behind by a program that is gone.";

/// Ends them. The exit code is 1 if one is left or something could not be examined.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.foreign {
        let is_meant = options.guess.yes && !options.dry_run;
        return foreign::run(&options.guess, is_meant);
    }
    if options.dry_run {
        return show(options);
    }
    if let Some(engine) = &options.forget {
        return forget(engine);
    }
    let failed = |why| Failure::plain(format_args!("orphans were not searched for: {why}"));
    let mut report = orphans::reap().map_err(failed)?;
    let processes = report.ended.len();
    containers::end(&mut report);
    match options.json {
        true => out::json(&as_json(&report)),
        false => {
            // Most of them belong to living servers and need no decision.
            let spared: &[_] = if options.verbose { &report.spared } else { &[] };
            for (what, remnants) in [
                ("ended", &report.ended[..]),
                ("still there", &report.failed),
                ("spared", spared),
            ] {
                remnants.iter().for_each(|it| {
                    out::line(format_args!("{what}: {}", one_line(&it.to_string())))
                });
            }
            let left = ps::look()?.servers;
            let without_host = left.iter().filter(|it| it.host.name.is_none());
            let advice = ps::advice(without_host).chain(unknown::lines(&report.unknown));
            advice.for_each(|line| out::line(format_args!("{line}")));
            let foreign = foreign::look()?.len();
            if foreign > 0 {
                let servers = units::count(foreign, "server seems", "servers seem");
                out::line(format_args!(
                    "{servers} to be left behind by programs without mcp-contain: `mcp-contain reap --foreign` shows more."
                ));
            }
            let done = match report.ended.len() + report.failed.len() {
                0 => NOTHING.to_owned(),
                _ => done(processes, report.ended.len() - processes),
            };
            out::line(format_args!("{done}{}", unless(report.unknown.is_empty())));
        }
    }
    let is_clean = report.failed.is_empty() && report.is_complete();
    Ok(ExitCode::from(u8::from(!is_clean)))
}

fn done(processes: usize, containers: usize) -> String {
    let processes = units::count(processes, "process was ended", "processes were ended");
    let containers = units::count(containers, "container was", "containers were");
    format!("{processes}, {containers} removed.")
}

fn forget(engine: &str) -> Result<ExitCode, Failure> {
    if !unknown::is_gone(engine) {
        return Err(Failure::plain(format_args!(
            "{engine} is not forgotten: only an engine whose socket is gone is, such as unix:///run/old.sock"
        )));
    }
    let forgotten = units::count(containers::forget(engine), "record", "records");
    out::line(format_args!(
        "Forgot {forgotten} of containers at {engine}."
    ));
    Ok(ExitCode::SUCCESS)
}

fn show(options: &Options) -> Result<ExitCode, Failure> {
    let left = Left::look()?;
    let code = ExitCode::from(u8::from(!left.unknown.is_empty()));
    if options.json {
        let servers: Vec<_> = left.orphans.iter().map(ps::server_as_json).collect();
        out::json(&json!({
            "schema": "mcp-contain/reap/1",
            "dry_run": true,
            "orphans": servers,
            "containers": texts(&left.containers),
            "unknown": unknown::as_json(&left.unknown),
        }));
        return Ok(code);
    }
    left.servers().chain(left.others()).for_each(out::line);
    let (servers, containers) = (left.orphans.len(), left.containers.len());
    let would = match servers + containers {
        0 => NOTHING.to_owned(),
        _ => format!(
            "{} and {} were left behind; without --dry-run they are ended.",
            units::count(servers, "server", "servers"),
            units::count(containers, "container", "containers")
        ),
    };
    out::line(format_args!("{would}{}", unless(left.unknown.is_empty())));
    Ok(code)
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
