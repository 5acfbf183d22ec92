//! `wrap`: puts this program in front of the servers in the hosts' configuration files.

mod diff;
mod file;
mod find;
mod format;
mod hosts;
mod outcome;
mod owner;
mod plugins;
mod rewrite;
#[cfg(target_os = "linux")]
pub(crate) mod survey;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;

use crate::failure::Failure;
use file::{Document, FileError};
use find::Place;
use outcome::{Done, Outcome, Shown, Tally};
use rewrite::{Shape, Wrapper};

/// Which configurations, and what is done with them.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Change these files instead of those of the known hosts
    files: Vec<PathBuf>,
    /// Change the files of this host only; may be given more than once
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    #[arg(value_parser = PossibleValuesParser::new(hosts::HOSTS.iter().map(|host| host.name)))]
    host: Vec<String>,
    /// Also change the files of the project in this directory (.mcp.json, .vscode/mcp.json, ...),
    /// which other people may share
    #[arg(long, conflicts_with = "files")]
    project: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Write --hardened into each command, too
    #[arg(long, conflicts_with = "undo")]
    hardened: bool,
    /// Write --write DIR into each command, too. May be given more than once
    #[arg(long, value_name = "DIR", conflicts_with = "undo", value_parser = directory)]
    write: Vec<String>,
    /// Put every file back as it was before
    #[arg(long)]
    undo: bool,
}

pub(crate) type ProgramAt = fn(&[String]) -> Option<usize>;

/// Changes the files one by one. A failure does not stop the others.
pub(crate) fn run(options: &Options, program_at: ProgramAt) -> Result<ExitCode, Failure> {
    if !cfg!(any(target_os = "linux", windows)) && !options.undo && !options.dry_run {
        let why = "servers can be started on Linux and Windows only: wrapped, they would not start on this system";
        return Err(Failure::wrapper(why));
    }
    let program = own_path().map_err(Failure::wrapper)?;
    let writable = options.write.iter().map(|dir| format!("--write={dir}"));
    let hardened = options.hardened.then(|| "--hardened".to_owned());
    let wrapper = Wrapper {
        path: &program,
        options: &hardened.into_iter().chain(writable).collect::<Vec<_>>(),
        is_file: &|path| Path::new(path).is_file(),
        program_at: &program_at,
        plugins: &[],
    };
    let places = places(options);
    if places.is_empty() {
        return Err(Failure::plain(
            "HOME is not set, so no configuration file can be looked for; set it, or name the files: mcp-contain wrap FILE",
        ));
    }
    let has_plugins = |place: &Place| place.host.is_some_and(|host| host.has_plugins);
    let plugged = places.iter().any(has_plugins).then(plugins::plugged);
    let plugged = plugged.unwrap_or_default();
    let mut out = io::stdout().lock();
    let mut tally = Tally::default();
    for place in &places {
        let plugins = Some(&plugged[..]).filter(|_| has_plugins(place));
        let plugins = plugins.unwrap_or_default();
        let wrapper = Wrapper { plugins, ..wrapper };
        let done = match change(place, options, &wrapper) {
            Ok(None) if !options.files.is_empty() => Err(FileError::Missing),
            done => done,
        };
        match done {
            Ok(None) => tally.missing.push(place.path.clone()),
            Ok(Some(done)) => {
                tally.add(place, &done);
                let _ = write!(out, "{}", Shown(place, &done, options));
            }
            Err(error) => {
                tally.failed += 1;
                Failure::plain(format_args!("{} {error}", place.path.display())).say();
            }
        }
    }
    for (title, _) in plugged.iter().filter(|_| !options.undo) {
        let why = "is a plugin's, and stays as it is: an update replaces its file";
        let _ = writeln!(out, "{title} {why}. `mcp-contain host -- claude` ends it");
    }
    let _ = writeln!(out, "{}", tally.summary(options));
    Ok(ExitCode::from(u8::from(tally.has_failed(options))))
}

/// Makes a directory absolute: a host has a working directory of its own.
fn directory(text: &str) -> io::Result<String> {
    match text {
        "default" => Ok(text.to_owned()),
        _ => absolute(text).map(|path| path.display().to_string()),
    }
}

fn places(options: &Options) -> Vec<Place> {
    if !options.files.is_empty() {
        return options.files.iter().map(|path| find::named(path)).collect();
    }
    let project = env::current_dir().ok().filter(|_| options.project);
    find::places(&options.host, project.as_deref())
}

/// Returns the path of this program in `PATH` rather than a versioned file it links to.
fn own_path() -> Result<String, String> {
    let real = env::current_exe();
    let real = real.map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let is_real =
        |path: &PathBuf| path.is_absolute() && path.canonicalize().ok() == real.canonicalize().ok();
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|directory| directory.join("mcp-contain"));
    let found = found.find(is_real).unwrap_or(real);
    let found = found.into_os_string().into_string();
    found.map_err(|path| format!("the path of this program is no text: {}", path.display()))
}

fn change(
    place: &Place,
    options: &Options,
    wrapper: &Wrapper<'_>,
) -> Result<Option<Done>, FileError> {
    let Some(document) = Document::read(&place.path)? else {
        return Ok(None);
    };
    let shape = Shape {
        format: place.format,
        tables: &place.tables,
    };
    let backup = usable_backup(&document, shape);
    // Servers that the user wrapped are left alone.
    let by_hand = backup.iter().flatten().next();
    let by_hand = by_hand.map_or_else(BTreeSet::new, |(_, wrapped)| wrapped.clone());
    let text = document.text();
    let rewritten = match options.undo {
        true => rewrite::unwrap(text, shape, wrapper, &by_hand),
        false => rewrite::wrap(text, shape, wrapper),
    };
    let rewritten = rewritten.map_err(FileError::Syntax)?;
    if !options.files.is_empty() && rewritten.is_empty() {
        let tables = place.tables.iter();
        let tables: Vec<_> = tables
            .map(|keys| format!("`{}`", keys.join(" › ")))
            .collect();
        return Err(FileError::NoServers(tables.join(", ")));
    }
    let outcome = match () {
        () if rewritten.changes.is_empty() => Outcome::Nothing,
        () if options.dry_run => Outcome::WouldChange,
        () if options.undo => {
            document.replace(&rewritten.text)?;
            match backup {
                Ok(Some((backup, _))) if backup == rewritten.text => {
                    fs::remove_file(document.backup_path()).map_err(FileError::Write)?;
                    Outcome::Restored
                }
                backup => Outcome::PutBack(backup.map(|it| it.map(|_| document.backup_path()))),
            }
        }
        () => {
            let wrapped = rewrite::wrapped(text, shape).map_err(FileError::Syntax)?;
            let backup = backup.map_err(|why| FileError::Backup(document.backup_path(), why))?;
            // A backup from before the first server was wrapped stays until all are unwrapped.
            if backup.is_none() || wrapped.is_subset(&by_hand) {
                document.back_up()?;
            }
            document.replace(&rewritten.text)?;
            Outcome::Wrapped(document.backup_path())
        }
    };
    Ok(Some(Done { rewritten, outcome }))
}

type Backup = (String, BTreeSet<format::Key>);

fn usable_backup(document: &Document, shape: Shape<'_>) -> Result<Option<Backup>, String> {
    let Some(backup) = document.backup().map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let wrapped = rewrite::wrapped(backup.text(), shape)?;
    Ok(Some((backup.text().to_owned(), wrapped)))
}
