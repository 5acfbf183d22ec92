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
    let logs = meant.iter().filter_map(|server| server.log.as_ref());
    let logs: BTreeSet<_> = logs.collect();
    if logs.is_empty() {
        let name = &options.server;
        return Err(Failure::plain(format_args!(
            "{name} has no log, and its standard error is that of the program that uses it: put `--log FILE` after `mcp-contain` in front of its command"
        )));
    }
    let aside = |log: &PathBuf| PathBuf::from(format!("{}.1", log.display()));
    let files = logs.into_iter().flat_map(|log| [aside(log), log.clone()]);
    let files: Vec<_> = files.filter(|file| file.exists()).collect();
    if options.json {
        out::json(&json!({"schema": "mcp-contain/logs/1", "files": files}));
    }
    for file in files.iter().filter(|_| !options.json) {
        let failed = |error| Failure::plain(format_args!("{}: {error}", file.display()));
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
