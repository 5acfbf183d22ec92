//! Outcomes of `wrap`, in words for people.

use std::fmt::{self, Display};
use std::path::PathBuf;

use super::Options;
use super::find::Place;
use super::rewrite::Rewritten;

/// Outcome for one file.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) rewritten: Rewritten,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Nothing,
    /// Only shown.
    WouldChange,
    /// The file as it was is here.
    Wrapped(PathBuf),
    /// To the byte.
    Restored,
    /// Server by server, for the result is not what the backup says, or there is none.
    PutBack {
        /// The file as it was until now.
        now: PathBuf,
        /// The backup, or why it cannot be used.
        before: Result<Option<PathBuf>, String>,
    },
}

/// Sentence on what was done with a file.
pub(super) struct Shown<'a>(
    pub(super) &'a Place,
    pub(super) &'a Done,
    pub(super) &'a Options,
);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(place, Done { rewritten, outcome }, options) = self;
        if rewritten.changes.is_empty() && rewritten.skipped.is_empty() {
            return Ok(());
        }
        let title = place.host.map_or("File", |host| host.title);
        let shared = if place.is_shared {
            " (shared with the project)"
        } else {
            ""
        };
        writeln!(f, "{title}: {}{shared}", place.path.display())?;
        for change in &rewritten.changes {
            writeln!(f, "  {} (line {})", change.title, change.line)?;
            for line in change.lines() {
                writeln!(f, "    {line}")?;
            }
        }
        for (title, why) in &rewritten.skipped {
            writeln!(f, "  {title} {why}")?;
        }
        let was = if options.undo { "put back" } else { "wrapped" };
        match outcome {
            Outcome::Nothing => writeln!(f, "  nothing to be {was}"),
            Outcome::WouldChange => writeln!(f, "  would be {was}: {}", rewritten.changes.len()),
            Outcome::Wrapped(backup) => {
                writeln!(
                    f,
                    "  {was}: {}; the file as it was: {}",
                    rewritten.changes.len(),
                    backup.display()
                )
            }
            Outcome::Restored => writeln!(f, "  the file is as it was before, to the byte"),
            Outcome::PutBack { now, before } => {
                let why = match before {
                    Ok(Some(_)) => "the file had been changed since".to_owned(),
                    Ok(None) => "there is no backup".to_owned(),
                    Err(why) => format!("the backup cannot be used ({why})"),
                };
                writeln!(
                    f,
                    "  {why}: its servers were put back one by one, all else stays"
                )?;
                if let Ok(Some(before)) = before {
                    writeln!(f, "  the file before it was wrapped: {}", before.display())?;
                }
                writeln!(f, "  the file until now: {}", now.display())
            }
        }
    }
}

/// Outcome for all files.
#[derive(Debug, Default)]
pub(super) struct Tally {
    files: usize,
    servers: usize,
    pub(super) failed: usize,
}

impl Tally {
    pub(super) fn add(&mut self, done: &Done) {
        self.files += usize::from(!done.rewritten.changes.is_empty());
        self.servers += done.rewritten.changes.len();
    }

    pub(super) fn summary(&self, options: &Options) -> String {
        let Self { files, servers, .. } = self;
        let what = format!("{servers} servers in {files} files");
        match (servers, options.dry_run, options.undo) {
            (0, _, false) => "No server was found that is not wrapped yet.".to_owned(),
            (0, _, true) => "No server was found that is wrapped.".to_owned(),
            (_, true, false) => {
                format!("Nothing was changed. Without --dry-run: {what} are wrapped.")
            }
            (_, true, true) => {
                format!("Nothing was changed. Without --dry-run: {what} are put back.")
            }
            (_, false, false) => {
                format!(
                    "Wrapped {what}. Restart the hosts; `mcp-contain wrap --undo` puts everything back."
                )
            }
            (_, false, true) => format!("Put back {what}. Restart the hosts."),
        }
    }
}
