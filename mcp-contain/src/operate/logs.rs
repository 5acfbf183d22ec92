//! `logs`: prints what `--log` has kept, and what is added.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

use super::{ps, stop};
use crate::failure::Failure;
use crate::show::out;
use crate::show::text::printable;
use crate::watch::Watch;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's name, one of its pids, or its ID, as `ps` shows them, tried in this order
    server: String,
    /// Go on with what is added, until the server has ended
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Print the names of the files instead, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let servers = ps::look()?.servers;
    let meant = stop::find(&servers, &options.server, true)?;
    let logs: BTreeSet<_> = meant.iter().filter_map(|it| it.log.clone()).collect();
    if logs.is_empty() {
        let name = &options.server;
        return Err(Failure::plain(format_args!(
            "{name} has no log, and its standard error is that of the program that uses it: put `--log FILE` after `mcp-contain` in front of its command"
        )));
    }
    let aside = |log: &PathBuf| PathBuf::from(format!("{}.1", log.display()));
    let files = logs.iter().flat_map(|log| [aside(log), log.clone()]);
    let files: Vec<_> = files.filter(|it| !options.json || it.exists()).collect();
    if options.json {
        out::json(&json!({"schema": "mcp-contain/logs/1", "files": files}));
        return Ok(ExitCode::SUCCESS);
    }
    let meant = meant.into_iter().filter(|_| options.follow);
    let running = meant.filter_map(|it| {
        // It starts a successor with the same log.
        let relay = stop::relay::of(it).ok();
        relay.or_else(|| super::hold(it.guardian.or(it.leader)?).ok())
    });
    let watch = options.follow.then(|| Watch::new(&logs)).transpose();
    let printed = watch.and_then(|watch| print(&files, running.collect(), watch));
    printed.map(|()| ExitCode::SUCCESS).map_err(Failure::plain)
}

/// Prints the files and, while one of these processes runs, what is added.
fn print(paths: &[PathBuf], mut held: Vec<OwnedFd>, mut watch: Option<Watch>) -> io::Result<()> {
    let (mut files, mut line) = (Vec::new(), Vec::new());
    loop {
        held.retain(|it| !super::ends_within(it, std::time::Duration::ZERO));
        for path in paths {
            let failed = |error| io::Error::other(format!("{}: {error}", path.display()));
            let file = match File::open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                file => file.map_err(failed)?,
            };
            let number = file.metadata()?.ino();
            if files.iter().all(|(of, _)| *of != number) {
                files.push((number, BufReader::new(file)));
            }
        }
        // Also of one that was moved aside; a line or a long part of one at a time.
        for (_, file) in &mut files {
            if file.get_ref().metadata()?.len() < file.stream_position()? {
                file.rewind()?;
            }
            while file.by_ref().take(1 << 16).read_until(b'\n', &mut line)? > 0 {
                let shown = printable(&String::from_utf8_lossy(&line));
                if io::stdout().write_all(shown.as_bytes()).is_err() {
                    return Ok(());
                }
                line.clear();
            }
        }
        files.retain(|(_, file)| file.get_ref().metadata().is_ok_and(|it| it.nlink() > 0));
        let Some(watch) = watch.as_mut().filter(|_| !held.is_empty()) else {
            return Ok(());
        };
        let fds = held.iter().map(AsFd::as_fd).chain([watch.inotify.as_fd()]);
        let fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        poll(&mut fds.collect::<Vec<_>>(), PollTimeout::NONE)?;
        watch.has_changed();
    }
}
