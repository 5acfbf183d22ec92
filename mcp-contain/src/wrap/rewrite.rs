//! Puts the wrapper in front of the commands of a configuration file, and removes it. Pure.
//!
//! The old command is moved as written, with quotes and escapes, to the front of the arguments:
//!
//! ```text
//! "command": "npx", "args": ["-y", "x"]    "command": "W", "args": ["npx", "-y", "x"]
//! "command": "npx", "args": []             "command": "W", "args": ["npx"]
//! "command": "npx"                         "command": "W", "args": [ "npx" ]
//! "command": ["npx", "x"]                  "command": ["W", "npx", "x"]
//! ```
//!
//! The space in the third one distinguishes it from the second, so that the text alone determines
//! its original.

use std::collections::BTreeSet;

use mcp_lifecycle_core::document::{Format, Node};

use super::diff::{self, Splice, apply};
use super::format::{Args, Command, Entry, Key, Skip, Table, entries};
use crate::show::runner::is_runner;

const NAME: &str = "mcp-contain";

const BOM: char = '\u{feff}';

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub(crate) format: Format,
    pub(crate) tables: &'a [Table],
}

/// A plugin with the name of its server, and the server's command line.
pub(crate) type Plugged = (String, Vec<String>);

/// The words to put in front of a command.
#[derive(Clone, Copy)]
pub(crate) struct Wrapper<'a> {
    pub(crate) path: &'a str,
    /// Options of this program, written after it.
    pub(crate) options: &'a [String],
    /// Returns whether a file exists: `/opt/my server/run` is a program, and `/usr/bin/node x.js` a
    /// shell command line.
    pub(crate) is_file: &'a dyn Fn(&str) -> bool,
    /// Returns the program's index in a command line of this program.
    pub(crate) program_at: &'a dyn Fn(&[String]) -> Option<usize>,
    /// The servers of the host's plugins.
    pub(crate) plugins: &'a [Plugged],
}

#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    pub(crate) changes: Vec<diff::Change>,
    pub(crate) skipped: Vec<(String, Skip)>,
}

impl Rewritten {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.skipped.is_empty()
    }
}

/// Wraps every server that can be wrapped, if that can be undone to the byte.
pub(crate) fn wrap(
    text: &str,
    shape: Shape<'_>,
    wrapper: &Wrapper<'_>,
) -> Result<Rewritten, String> {
    let kept = wrapped(text, shape)?;
    let rewritten = change(text, shape, |entry, body| {
        wrap_entry(entry, body, shape.format, wrapper)
    })?;
    let back = unwrap(&rewritten.text, shape, wrapper, &kept);
    match back {
        Ok(back) if back.text == text => Ok(rewritten),
        _ => Err("it is written in a way that could not be put back exactly as it is; wrap its servers by hand".to_owned()),
    }
}

/// Removes the wrapper from all but the `kept` servers.
pub(crate) fn unwrap(
    text: &str,
    shape: Shape<'_>,
    wrapper: &Wrapper<'_>,
    kept: &BTreeSet<Key>,
) -> Result<Rewritten, String> {
    change(text, shape, |entry, body| {
        match kept.contains(&entry.key()) {
            true if entry.is_wrapped() => Err(Skip::WrappedBefore),
            _ => unwrap_entry(entry, body, wrapper),
        }
    })
}

pub(crate) fn wrapped(text: &str, shape: Shape<'_>) -> Result<BTreeSet<Key>, String> {
    let entries = entries(shape.format, text_of(text), shape.tables)?;
    let wrapped = entries.into_iter().filter(Entry::is_wrapped);
    Ok(wrapped.map(|entry| entry.key()).collect())
}

fn change(
    text: &str,
    shape: Shape<'_>,
    decide: impl Fn(&Entry, &str) -> Result<Vec<Splice>, Skip>,
) -> Result<Rewritten, String> {
    let body = text_of(text);
    let mut all = Vec::new();
    let (mut changes, mut skipped) = (Vec::new(), Vec::new());
    for entry in entries(shape.format, body, shape.tables)? {
        match decide(&entry, body) {
            Ok(splices) => {
                changes.push(diff::Change::new(body, &entry, &splices));
                all.extend(splices);
            }
            Err(why) => skipped.push((entry.title(), why)),
        }
    }
    let mark = &text[..text.len() - body.len()];
    Ok(Rewritten {
        text: format!("{mark}{}", apply(body, &all)),
        changes,
        skipped,
    })
}

fn text_of(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

impl Entry {
    fn words(&self) -> impl Iterator<Item = &str> {
        let words = self.command.iter().flat_map(|command| {
            let list: &[Node] = match &command.args {
                Args::Missing { .. } => &[],
                Args::List { elements, .. } => elements,
            };
            std::iter::once(&command.program).chain(list)
        });
        words.filter_map(Node::as_text)
    }

    /// Returns whether this program is its command, or among its arguments behind `env` or `sh -c`.
    pub(super) fn is_wrapped(&self) -> bool {
        self.words().any(is_this)
    }
}

fn is_this(command: &str) -> bool {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    name == NAME || name.strip_suffix(".exe") == Some(NAME)
}

fn wrap_entry(
    entry: &Entry,
    body: &str,
    format: Format,
    wrapper: &Wrapper<'_>,
) -> Result<Vec<Splice>, Skip> {
    let Command {
        program,
        args,
        is_list,
    } = entry.command.as_ref().map_err(Clone::clone)?;
    if entry.is_wrapped() {
        let has = |option: &String| entry.words().any(|word| word == option);
        return Err(match wrapper.options.iter().all(has) {
            true => Skip::Wrapped,
            false => Skip::Unclear("is wrapped without these options; undo that first".to_owned()),
        });
    }
    let name = program.as_text().unwrap_or_default().to_owned();
    if name.trim().is_empty() {
        return Err(Skip::NoCommand);
    }
    if name.contains(char::is_whitespace) && !(wrapper.is_file)(&name) {
        let why = "has a line for a shell as its command; split it into `command` and `args`";
        return Err(Skip::Unclear(why.to_owned()));
    }
    let mut plugins = wrapper.plugins.iter();
    if let Some((title, _)) = plugins.find(|it| entry.words().eq(it.1.iter())) {
        return Err(Skip::Plugged(title.clone()));
    }
    let is_agent = entry.path.first().is_some_and(|key| key == "agent_servers");
    if is_agent && !cfg!(target_os = "linux") {
        let why = "is an agent, which `mcp-contain host` starts on Linux only";
        return Err(Skip::Unclear(why.to_owned()));
    }
    let written = &body[program.range.clone()];
    // A program with the name of a verb, of this version or a later one, is marked by two dashes.
    let may_be_verb = name.chars().all(|c| c.is_ascii_lowercase()) && !is_runner(&name);
    let is_program = !may_be_verb && (wrapper.program_at)(&[name]) == Some(0);
    let host = is_agent.then(|| "host".to_owned());
    let dashes = (is_agent || !is_program).then(|| "--".to_owned());
    let words = host.iter().chain(wrapper.options).chain(&dashes);
    let words: String = words.map(|word| format.quote(word) + ", ").collect();
    let first = words + written;
    if *is_list {
        let words = format!("{}, {}", format.quote(wrapper.path), first);
        return Ok(vec![Splice::replace(program.range.clone(), words)]);
    }
    let put = match args {
        Args::Missing { at, before, after } => {
            Splice::insert(*at, format!("{before}[ {first} ]{after}"))
        }
        Args::List {
            range, elements, ..
        } => match elements.first() {
            None => Splice::insert(range.start + 1, first),
            Some(next) => {
                let space = &body[range.start + 1..next.range.start];
                let is_space = !space.is_empty() && space.chars().all(char::is_whitespace);
                let space = if is_space { space } else { " " };
                Splice::insert(next.range.start, format!("{first},{space}"))
            }
        },
    };
    let command = Splice::replace(program.range.clone(), format.quote(wrapper.path));
    Ok(vec![command, put])
}

fn unwrap_entry(entry: &Entry, body: &str, wrapper: &Wrapper<'_>) -> Result<Vec<Splice>, Skip> {
    let Command {
        program,
        args,
        is_list,
    } = entry.command.as_ref().map_err(Clone::clone)?;
    if !program.as_text().is_some_and(is_this) {
        return Err(match entry.is_wrapped() {
            true => Skip::Unclear(
                "has this program among its arguments; take it out by hand".to_owned(),
            ),
            false => Skip::NotWrapped,
        });
    }
    let lost =
        || Skip::Unclear("is wrapped, but the command is not among its arguments".to_owned());
    let Args::List {
        range,
        elements,
        removal,
    } = args
    else {
        return Err(lost());
    };
    let words = elements
        .iter()
        .map(|word| word.as_text().unwrap_or_default().to_owned());
    let at = (wrapper.program_at)(&words.collect::<Vec<_>>()).ok_or_else(lost)?;
    let (Some(first), Some(moved)) = (elements.first(), elements.get(at)) else {
        return Err(lost());
    };
    if *is_list {
        return Ok(vec![Splice::remove(program.range.start..moved.range.start)]);
    }
    let written = &body[moved.range.clone()];
    let taken = match elements.get(at + 1) {
        Some(next) => first.range.start..next.range.start,
        None if first.range.start == range.start + 1 => {
            let rest = &body[moved.range.end..range.end];
            let comma = rest
                .find(|c: char| !c.is_whitespace())
                .filter(|at| rest[*at..].starts_with(','));
            first.range.start..moved.range.end + comma.map_or(0, |at| at + 1)
        }
        None => removal.clone().unwrap_or(range.start + 1..range.end - 1),
    };
    Ok(vec![
        Splice::replace(program.range.clone(), written),
        Splice::remove(taken),
    ])
}
