//! Readable outcomes of `wrap`.

use std::fmt::{self, Display};
use std::path::{PathBuf, absolute};

use mcp_lifecycle_core::launch::quote;

use super::Options;
use super::find::Place;
use super::format::Skip;
use super::rewrite::Rewritten;
use crate::show::text::count;

#[derive(Debug)]
pub(super) struct Done {
    pub(super) rewritten: Rewritten,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Nothing,
    WouldChange,
    Wrapped(PathBuf),
    Restored,
    /// Unwrapped server by server: the backup differs, is missing, or cannot be used.
    PutBack(Result<Option<PathBuf>, String>),
}

pub(super) struct Shown<'a>(
    pub(super) &'a Place,
    pub(super) &'a Done,
    pub(super) &'a Options,
);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(place, Done { rewritten, outcome }, options) = self;
        if rewritten.is_empty() {
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
        let number = rewritten.changes.len();
        match outcome {
            Outcome::Nothing => writeln!(f, "  nothing to be {was}"),
            Outcome::WouldChange => writeln!(f, "  would be {was}: {number}"),
            Outcome::Wrapped(backup) => {
                let backup = backup.display();
                writeln!(f, "  {was}: {number}; the file as it was: {backup}")
            }
            Outcome::Restored => writeln!(f, "  the file is as it was before, to the byte"),
            Outcome::PutBack(before) => {
                let why = match before {
                    Ok(Some(_)) => "the file had been changed since".to_owned(),
                    Ok(None) => "there is no backup".to_owned(),
                    Err(why) => format!("the backup cannot be used ({why})"),
                };
                writeln!(
                    f,
                    "  {why}: its servers were put back one by one, all else stays"
                )?;
                let Ok(Some(before)) = before else {
                    return Ok(());
                };
                let before = before.display();
                writeln!(
                    f,
                    "  the file before it was wrapped, which can be deleted when nothing is missing: {before}"
                )
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) missing: Vec<PathBuf>,
    pub(super) failed: usize,
    read: usize,
    changed: Vec<PathBuf>,
    servers: usize,
    as_wanted: usize,
    unclear: usize,
    others: usize,
}

impl Tally {
    pub(super) fn add(&mut self, place: &Place, done: &Done) {
        let rewritten = &done.rewritten;
        self.read += 1;
        self.servers += rewritten.changes.len();
        if !rewritten.changes.is_empty() {
            self.changed.push(place.path.clone());
        }
        for (_, why) in &rewritten.skipped {
            *match why {
                Skip::Wrapped | Skip::NotWrapped => &mut self.as_wanted,
                Skip::Unclear(_) => &mut self.unclear,
                _ => &mut self.others,
            } += 1;
        }
    }

    pub(super) fn has_failed(&self, options: &Options) -> bool {
        let is_absent = self.read == 0 && !options.host.is_empty();
        let is_unclear = self.servers + self.as_wanted == 0 && self.unclear > 0;
        self.failed > 0 || is_absent || is_unclear
    }

    pub(super) fn summary(&self, options: &Options) -> String {
        let files = count(self.changed.len(), "file", "files");
        let (servers, are) = match self.servers {
            0 => return self.nothing(options),
            1 => ("1 server".to_owned(), "is"),
            many => (format!("{many} servers"), "are"),
        };
        let done = if options.undo { "put back" } else { "wrapped" };
        let next = "Restart the programs that use them.";
        match (options.dry_run, options.undo) {
            (true, _) => {
                format!("Nothing was changed. Without --dry-run {servers} in {files} {are} {done}.")
            }
            (false, true) => format!("Put back {servers} in {files}. {next}"),
            (false, false) => {
                let undo = self.way_back(options);
                format!("Wrapped {servers} in {files}. {next} To undo it: {undo}")
            }
        }
    }

    fn nothing(&self, options: &Options) -> String {
        match () {
            () if self.failed > 0 => format!(
                "Nothing was changed: {} (see above).",
                count(self.failed, "file has an error", "files have an error")
            ),
            () if self.read == 0 => {
                let mut text = "No configuration file of a known host was found. Looked for:\n".to_owned();
                for path in &self.missing {
                    text.push_str(&format!("  {}\n", path.display()));
                }
                text + "Another file can be named: mcp-contain wrap FILE"
            }
            () if options.undo => "Nothing to undo: no server is wrapped in the files that were looked at. \
                 A file that was wrapped by its name has to be named again: mcp-contain wrap --undo FILE"
                .to_owned(),
            () if self.unclear == 0 && self.as_wanted > 0 => {
                let all = count(self.as_wanted, "server is", "servers are");
                format!("Nothing to do: {all} wrapped already.")
            }
            () if self.as_wanted + self.unclear + self.others > 0 => {
                "Nothing to do: each server above is left as it is, for the reason beside it.".to_owned()
            }
            () => "Nothing to do: no servers are in the files that were looked at.".to_owned(),
        }
    }

    fn way_back(&self, options: &Options) -> String {
        let mut words = vec!["mcp-contain wrap --undo".to_owned()];
        match options.files.is_empty() && !options.project {
            true => words.extend(options.host.iter().map(|name| format!("--host {name}"))),
            // `--undo` alone examines the files of hosts, and a project's only in its directory.
            false => {
                let whole = |path: &PathBuf| absolute(path).unwrap_or_else(|_| path.clone());
                words.extend(self.changed.iter().map(|path| quote(whole(path))));
            }
        }
        words.join(" ")
    }
}
