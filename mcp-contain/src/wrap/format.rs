//! Servers in a configuration file, whatever its format. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use mcp_lifecycle_core::document::{Format, Member, Node, Value, position};

use crate::show::text::one_line;

/// The keys of a table of servers; `*` is any key.
pub(crate) type Table = &'static [&'static str];

/// The keys of a server in a file, and the number of earlier servers with the same keys.
pub(crate) type Key = (Vec<String>, usize);

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) path: Vec<String>,
    pub(super) occurrence: usize,
    /// From its key to the end of its value, or its lines.
    pub(super) range: Range<usize>,
    pub(super) command: Result<Command, Skip>,
    pub(super) secrets: Vec<Range<usize>>,
}

#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) program: Node,
    pub(super) args: Args,
    /// The program and its arguments are one list.
    pub(super) is_list: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Args {
    /// The key is missing and would be inserted here, between these two texts.
    Missing {
        at: usize,
        before: String,
        after: String,
    },
    List {
        /// The list, with brackets.
        range: Range<usize>,
        elements: Vec<Node>,
        /// The range to remove with the key, if nothing else is in it.
        removal: Option<Range<usize>>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Skip {
    #[error("is reached by its url, and not started")]
    Remote,
    #[error("has no command")]
    NoCommand,
    #[error("is wrapped already")]
    Wrapped,
    #[error("is not wrapped")]
    NotWrapped,
    #[error("was wrapped by hand, and stays so")]
    WrappedBefore,
    #[error(
        "is in the plugin {0} too: Claude Code starts one of the two only while they are equal"
    )]
    Plugged(String),
    #[error("{0}")]
    Unclear(String),
}

impl Entry {
    pub(super) fn title(&self) -> String {
        one_line(&self.path.join(" › "))
    }

    /// Returns a key that is unique in the file.
    pub(super) fn key(&self) -> Key {
        (self.path.clone(), self.occurrence)
    }
}

const URL_KEYS: [&str; 5] = ["url", "serverUrl", "httpUrl", "uri", "baseUrl"];

pub(super) fn entries(format: Format, text: &str, tables: &[Table]) -> Result<Vec<Entry>, String> {
    let root = format.parse(text).map_err(|misfit| {
        let (line, _) = position(text, misfit.at.unwrap_or(0));
        format!("line {line}: {}", one_line(&misfit.problem))
    })?;
    let mut entries = Vec::new();
    for table in tables {
        root.find(&[table, &["*"][..]].concat(), &mut |path, member| {
            entries.push(entry(format, text, member, path));
        });
    }
    // opencode has its servers in `mcp`, others in `mcp › servers`.
    entries.retain(|entry| !tables.iter().any(|table| entry.path == **table));
    entries.sort_by_key(|entry| entry.range.start);
    let mut seen = BTreeMap::<Vec<String>, usize>::new();
    for entry in &mut entries {
        let seen = seen.entry(entry.path.clone()).or_default();
        entry.occurrence = *seen;
        *seen += 1;
    }
    Ok(entries)
}

fn entry(format: Format, text: &str, member: &Member, path: Vec<String>) -> Entry {
    let mut secrets = Vec::new();
    for Member { name, node, .. } in member.node.members() {
        match (name.as_str(), &node.value) {
            ("command" | "args", Value::Text(_) | Value::List(_)) => {}
            _ => hide(node, &mut secrets),
        }
    }
    let is_table = matches!(member.node.value, Value::Table { .. });
    let strange = "is not written as a server, which is a table with `command` and `args`";
    let command = match is_table {
        true => command(format, text, &member.node),
        false => Err(unclear(strange)),
    };
    Entry {
        path,
        occurrence: 0,
        range: match format {
            Format::Toml if is_table => lines(text, &member.node, &command),
            _ => range(member),
        },
        command,
        secrets,
    }
}

fn command(format: Format, text: &str, server: &Node) -> Result<Command, Skip> {
    let Some(member) = only(server, "command")? else {
        let is_remote = URL_KEYS.iter().any(|key| all(server, key).next().is_some());
        return Err(match is_remote {
            true => Skip::Remote,
            false => Skip::NoCommand,
        });
    };
    match &member.node.value {
        Value::Text(_) => Ok(Command {
            program: member.node.clone(),
            args: args(format, text, server, member)?,
            is_list: false,
        }),
        Value::List(list) => match list.split_first() {
            None => Err(Skip::NoCommand),
            Some((program, args)) if matches!(program.value, Value::Text(_)) => Ok(Command {
                program: program.clone(),
                args: Args::List {
                    range: member.node.range.clone(),
                    elements: args.to_vec(),
                    removal: None,
                },
                is_list: true,
            }),
            Some(_) => Err(unclear("has a `command` that is no text")),
        },
        _ => Err(unclear("has a `command` that is no text")),
    }
}

fn args(format: Format, text: &str, server: &Node, command: &Member) -> Result<Args, Skip> {
    let end = command.node.range.end;
    let is_braced = matches!(server.value, Value::Table { is_braced, .. } if is_braced);
    let Some(member) = only(server, "args")? else {
        return missing(format, text, command, is_braced);
    };
    let Value::List(list) = &member.node.value else {
        return Err(unclear("has `args` that are no list"));
    };
    let own = range(member);
    let follows = own.start > end && text[end..own.start].trim() == ",";
    Ok(Args::List {
        range: member.node.range.clone(),
        elements: list.clone(),
        removal: match is_braced {
            true => follows.then_some(end..own.end),
            false => own_line(text, own),
        },
    })
}

/// Returns the place of a missing key: beside the command in `{ }`, else on a line above it
/// with the same prefix (`mcp_servers.NAME.` or white space).
fn missing(format: Format, text: &str, command: &Member, is_braced: bool) -> Result<Args, Skip> {
    let start = line_start(text, command.start);
    let beginning = &text[start..command.start];
    let end = command.node.range.end;
    let (at, before, after) = match format {
        Format::Json if start > 0 && beginning.chars().all(char::is_whitespace) => {
            let separator = format!("{}{beginning}", line_end(text));
            (end, format!(",{separator}\"args\": "), "")
        }
        Format::Json => (end, ", \"args\": ".to_owned(), ""),
        Format::Toml if is_braced => (end, ", args = ".to_owned(), ""),
        Format::Toml if beginning.contains(['{', '#']) => {
            return Err(unclear(
                "is written in a way that this program does not change",
            ));
        }
        _ => (start, format!("{beginning}args = "), line_end(text)),
    };
    let after = after.to_owned();
    Ok(Args::Missing { at, before, after })
}

fn all<'a>(table: &'a Node, key: &str) -> impl Iterator<Item = &'a Member> {
    table.members().iter().filter(move |it| it.name == key)
}

/// Returns the only value of a key: hosts differ in which of two counts.
fn only<'a>(table: &'a Node, key: &str) -> Result<Option<&'a Member>, Skip> {
    let mut found = all(table, key);
    let first = found.next();
    match found.next() {
        None => Ok(first),
        Some(_) => Err(Skip::Unclear(format!("has `{key}` twice"))),
    }
}

fn hide(node: &Node, secrets: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::Table { members, .. } => members.iter().for_each(|it| hide(&it.node, secrets)),
        Value::List(list) => list.iter().for_each(|it| hide(it, secrets)),
        Value::Text(_) | Value::Other(_) => secrets.push(node.range.clone()),
    }
}

fn range(member: &Member) -> Range<usize> {
    member.start..member.node.range.end.max(member.start)
}

/// Returns the lines to show: of its header, and of the keys that matter.
fn lines(text: &str, node: &Node, command: &Result<Command, Skip>) -> Range<usize> {
    let own = Some(node.range.clone()).filter(|range| !range.is_empty());
    let mut spans: Vec<_> = own.into_iter().collect();
    if let Ok(Command { program, args, .. }) = command {
        spans.push(program.range.clone());
        match args {
            Args::Missing { at, .. } => spans.push(*at..*at),
            Args::List { range, removal, .. } => {
                spans.push(range.clone());
                spans.extend(removal.clone());
            }
        }
    }
    let start = spans.iter().map(|span| span.start).min().unwrap_or(0);
    let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
    line_start(text, start)..text[end..].find('\n').map_or(text.len(), |more| end + more)
}

fn own_line(text: &str, key: Range<usize>) -> Option<Range<usize>> {
    let rest = text[key.end..].find('\n')?;
    let is_alone = text[key.end..key.end + rest].trim().is_empty();
    is_alone.then(|| line_start(text, key.start)..key.end + rest + 1)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

fn line_end(text: &str) -> &'static str {
    let end = text.find('\n');
    match end.is_some_and(|end| text[..end].ends_with('\r')) {
        true => "\r\n",
        false => "\n",
    }
}

fn unclear(why: &str) -> Skip {
    Skip::Unclear(why.to_owned())
}
