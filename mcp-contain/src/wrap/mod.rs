//! `wrap`: puts this program in front of the servers in the hosts' configuration files.
//!
//! ```text
//! hosts ─── which hosts there are, and where each keeps its servers. Data
//! find ──── which files are looked at
//! file ──── a file, read whole and replaced at once
//! owner ─── whose it is, and who may do what to it
//! format ── what JSON and TOML have in common: both say where each server is. Pure
//! json ──── servers in JSON, with comments, or JSON5. Pure
//! toml ──── servers in TOML. Pure
//! entry ─── what a file says about one server. Pure
//! rewrite ─ what changes, and what it was before. Pure
//! survey ── what is wrapped and what is not
//! outcome ─ what was done, in words. Pure
//! splice ── changes of a text by place. Pure
//! diff ──── a change for people to read, without secrets. Pure
//! ```

mod diff;
mod entry;
mod file;
mod find;
mod format;
mod hosts;
mod json;
mod outcome;
mod owner;
mod rewrite;
mod splice;
#[cfg(target_os = "linux")]
pub(crate) mod survey;
#[cfg(test)]
mod tests;
mod toml;

use std::collections::BTreeSet;
use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;

use crate::cli::{self, Verb};
use crate::failure::Failure;
use file::{Document, FileError};
use find::Place;
use outcome::{Done, Outcome, Shown, Tally};
use rewrite::{Shape, Wrapper};

/// Which configurations, and what is done with them.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Files to change instead of those of the hosts
    files: Vec<PathBuf>,
    /// Change the files of this host only; can be given several times
    #[arg(long, value_name = "NAME", value_parser = host_names(), conflicts_with = "files")]
    host: Vec<String>,
    /// Change the files of the project in this directory as well (.mcp.json, .vscode/mcp.json, ...),
    /// which others may share
    #[arg(long, conflicts_with = "files")]
    project: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Put every file back as it was before
    #[arg(long)]
    undo: bool,
}

const ALL: &str = "all";

fn host_names() -> PossibleValuesParser {
    let names = hosts::HOSTS.iter().map(|host| host.name);
    PossibleValuesParser::new(names.chain([ALL]))
}

/// Changes the files, one after the other: one that cannot be changed keeps no other back.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if !cfg!(any(target_os = "linux", windows)) && !options.undo && !options.dry_run {
        let why = "servers can be started on Linux and Windows only: wrapped, they would not start on this system";
        return Err(Failure::wrapper(why));
    }
    let program = own_path().map_err(Failure::wrapper)?;
    let wrapper = Wrapper {
        path: &program,
        is_file: &|path| Path::new(path).is_file(),
        program_at: &program_at,
    };
    let mut out = io::stdout().lock();
    let mut tally = Tally::default();
    for place in places(options) {
        let file = place.path.display();
        match change(&place, options, &wrapper) {
            Ok(None) if place.host.is_none() || !options.files.is_empty() => {
                tally.failed += 1;
                Failure::wrapper(format_args!("{file} is not there")).report();
            }
            Ok(None) => {}
            Ok(Some(done)) => {
                tally.add(&done);
                // Nobody may be listening; the files are changed all the same.
                let _ = write!(out, "{}", Shown(&place, &done, options));
            }
            Err(error) => {
                tally.failed += 1;
                Failure::wrapper(format_args!("{file} {error}")).report();
            }
        }
    }
    let _ = writeln!(out, "{}", tally.summary(options));
    Ok(ExitCode::from(u8::from(tally.failed > 0)))
}

fn places(options: &Options) -> Vec<Place> {
    if !options.files.is_empty() {
        return options.files.iter().map(|path| find::named(path)).collect();
    }
    let names = match options.host.iter().any(|name| name == ALL) {
        true => &[],
        false => options.host.as_slice(),
    };
    let project = env::current_dir().ok().filter(|_| options.project);
    find::places(names, project.as_deref())
}

/// Index of the program in a command line of this program.
fn program_at(words: &[String]) -> Option<usize> {
    let line = ["mcp-contain"]
        .into_iter()
        .chain(words.iter().map(String::as_str));
    match cli::parse(line.map(Into::into)) {
        Ok(Verb::Run(run)) => words.len().checked_sub(run.command.len()),
        _ => None,
    }
}

/// The path by which this program is found again after an update: the one in `PATH` rather than the
/// versioned file that it leads to.
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

/// Changes one file; `None` if it is not there.
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
    // What was wrapped by hand is none of ours.
    let by_hand = match &backup {
        Ok(Some((_, wrapped))) => wrapped.clone(),
        Ok(None) | Err(_) => BTreeSet::new(),
    };
    let text = document.text();
    let rewritten = match options.undo {
        true => rewrite::unwrap(text, shape, wrapper, &by_hand),
        false => rewrite::wrap(text, shape, wrapper),
    };
    let rewritten = rewritten.map_err(FileError::Syntax)?;
    let outcome = match () {
        () if rewritten.changes.is_empty() => Outcome::Nothing,
        () if options.dry_run => Outcome::WouldChange,
        () if options.undo => match backup {
            Ok(Some((backup, _))) if backup == rewritten.text => {
                document.replace(&rewritten.text)?;
                file::remove_backup(&document)?;
                Outcome::Restored
            }
            backup => {
                let now = document.keep_before_undo()?;
                document.replace(&rewritten.text)?;
                Outcome::PutBack {
                    now,
                    before: backup.map(|it| it.map(|_| document.backup_path())),
                }
            }
        },
        () => {
            let wrapped = rewrite::wrapped(text, shape).map_err(FileError::Syntax)?;
            let backup = backup.map_err(|why| FileError::Backup(document.backup_path(), why))?;
            // A backup from before the first server was wrapped stays until they are put back.
            match backup {
                None => document.back_up()?,
                Some((old, _)) if wrapped.is_subset(&by_hand) => {
                    if old != text {
                        document.keep_old_backup()?;
                    }
                    document.back_up()?;
                }
                Some(_) => {}
            }
            document.replace(&rewritten.text)?;
            Outcome::Wrapped(document.backup_path())
        }
    };
    Ok(Some(Done { rewritten, outcome }))
}

/// The backup's text, and which of its servers are wrapped.
type Backup = (String, BTreeSet<entry::Key>);

/// The backup, if there is one.
///
/// # Errors
///
/// It cannot be read: why.
fn usable_backup(document: &Document, shape: Shape<'_>) -> Result<Option<Backup>, String> {
    let Some(backup) = document.backup().map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let wrapped = rewrite::wrapped(backup.text(), shape)?;
    Ok(Some((backup.text().to_owned(), wrapped)))
}
