//! `logs`: prints what `--log` has kept.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::{ps, stop};
use crate::failure::Failure;
use crate::show::out;
use crate::show::text::printable;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's name, one of its pids, or its ID, as `ps` shows them, tried in this order
    server: String,
    /// Print the names of the files instead, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let servers = ps::look()?.servers;
    let meant = stop::find(&servers, &options.server, true)?;
    let logs: BTreeSet<_> = meant.iter().map(|server| &server.log).collect();
    // Servers of one command have one log.
    if logs.len() > 1 {
        let ids: Vec<_> = meant.iter().map(|server| &*server.id).collect();
        let (called, ids) = (&options.server, ids.join(", "));
        let why =
            format_args!("servers called {called} have different logs: name one by its ID ({ids})");
        return Err(Failure::plain(why));
    }
    let Some(log) = logs.into_iter().flatten().next() else {
        return Err(Failure::plain(format_args!(
            "{} has no log: put `--log FILE` after `mcp-contain` in front of its command. Its standard error is that of the program that uses it",
            options.server
        )));
    };
    let aside = PathBuf::from(format!("{}.1", log.display()));
    let aside = aside.exists().then_some(aside);
    if options.json {
        out::json(&json!({"schema": "mcp-contain/logs/1", "log": log, "aside": aside}));
        return Ok(ExitCode::SUCCESS);
    }
    for file in aside.iter().chain([log]) {
        let failed =
            |error| Failure::plain(format_args!("cannot read {}: {error}", file.display()));
        print(file).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a file, a line or a long part of one at a time.
fn print(path: &Path) -> io::Result<()> {
    let mut file = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    while file.by_ref().take(1 << 16).read_until(b'\n', &mut line)? > 0 {
        out::print(printable(&String::from_utf8_lossy(&line)));
        line.clear();
    }
    Ok(())
}
