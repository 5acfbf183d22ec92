//! Servers in a configuration file, whatever its format. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use super::entry::{Args, Command, Entry, Skip};
use super::{json, toml};

/// The keys of a table of servers; `*` is any key.
pub(crate) type Table = &'static [&'static str];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON, with comments, trailing commas and the rest of JSON5.
    Json,
    Toml,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) value: Value,
    /// Empty for a table of TOML that has no header.
    pub(super) range: Range<usize>,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Table {
        members: Vec<Member>,
        /// It is written in braces, with commas between its members.
        is_braced: bool,
    },
    List(Vec<Node>),
    Text(String),
    Other,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) start: usize,
    pub(super) node: Node,
}

const URL_KEYS: [&str; 5] = ["url", "serverUrl", "httpUrl", "uri", "baseUrl"];

impl Format {
    pub(super) fn entries(self, text: &str, tables: &[Table]) -> Result<Vec<Entry>, String> {
        let root = match self {
            Self::Json => json::parse(text),
            Self::Toml => toml::parse(text),
        }?;
        let mut entries = Vec::new();
        for table in tables {
            self.find(text, &root, table, &mut Vec::new(), &mut entries);
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

    pub(super) fn quote(self, text: &str) -> String {
        match self {
            Self::Json => serde_json::Value::from(text).to_string(),
            Self::Toml => toml_edit::Value::from(text).to_string(),
        }
    }

    /// Follows the keys to the table of servers. Duplicate keys are all followed.
    fn find(
        self,
        text: &str,
        node: &Node,
        keys: &[&str],
        path: &mut Vec<String>,
        found: &mut Vec<Entry>,
    ) {
        for member in node.members() {
            path.push(member.name.clone());
            match (keys, &member.node.value) {
                ([], Value::Table { .. }) => found.push(self.entry(text, member, path.clone())),
                ([], _) => found.push(Entry::strange(path, member.range())),
                ([key, rest @ ..], _) if *key == "*" || *key == member.name => {
                    self.find(text, &member.node, rest, path, found);
                }
                _ => {}
            }
            path.pop();
        }
    }

    fn entry(self, text: &str, member: &Member, path: Vec<String>) -> Entry {
        let mut secrets = Vec::new();
        for Member { name, node, .. } in member.node.members() {
            match (name.as_str(), &node.value) {
                ("command" | "args", Value::Text(_) | Value::List(_)) => {}
                _ => node.hide(&mut secrets),
            }
        }
        let command = self.command(text, &member.node);
        Entry {
            path,
            occurrence: 0,
            range: match self {
                Self::Json => member.range(),
                Self::Toml => lines(text, &member.node, &command),
            },
            command,
            secrets,
        }
    }

    fn command(self, text: &str, server: &Node) -> Result<Command, Skip> {
        let Some(member) = server.only("command")? else {
            let is_remote = URL_KEYS.iter().any(|key| server.all(key).next().is_some());
            return Err(match is_remote {
                true => Skip::Remote,
                false => Skip::NoCommand,
            });
        };
        match &member.node.value {
            Value::Text(_) => Ok(Command {
                program: member.node.clone(),
                args: self.args(text, server, member)?,
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

    fn args(self, text: &str, server: &Node, command: &Member) -> Result<Args, Skip> {
        let end = command.node.range.end;
        let is_braced = matches!(server.value, Value::Table { is_braced, .. } if is_braced);
        let Some(member) = server.only("args")? else {
            return self.missing(text, command, is_braced);
        };
        let Value::List(list) = &member.node.value else {
            return Err(unclear("has `args` that are no list"));
        };
        let own = member.range();
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
    fn missing(self, text: &str, command: &Member, is_braced: bool) -> Result<Args, Skip> {
        let start = line_start(text, command.start);
        let beginning = &text[start..command.start];
        let end = command.node.range.end;
        let (at, before, after) = match self {
            Self::Json if start > 0 && beginning.chars().all(char::is_whitespace) => {
                let separator = format!("{}{beginning}", line_end(text));
                (end, format!(",{separator}\"args\": "), "")
            }
            Self::Json => (end, ", \"args\": ".to_owned(), ""),
            Self::Toml if is_braced => (end, ", args = ".to_owned(), ""),
            Self::Toml if beginning.contains(['{', '#']) => {
                return Err(unclear(
                    "is written in a way that this program does not change",
                ));
            }
            Self::Toml => (start, format!("{beginning}args = "), line_end(text)),
        };
        let after = after.to_owned();
        Ok(Args::Missing { at, before, after })
    }
}

impl Node {
    fn members(&self) -> &[Member] {
        match &self.value {
            Value::Table { members, .. } => members,
            _ => &[],
        }
    }

    fn all(&self, key: &str) -> impl Iterator<Item = &Member> {
        self.members().iter().filter(move |it| it.name == key)
    }

    /// Returns the only value of a key: hosts differ in which of two counts.
    fn only(&self, key: &str) -> Result<Option<&Member>, Skip> {
        let mut found = self.all(key);
        let first = found.next();
        match found.next() {
            None => Ok(first),
            Some(_) => Err(Skip::Unclear(format!("has `{key}` twice"))),
        }
    }

    fn hide(&self, secrets: &mut Vec<Range<usize>>) {
        match &self.value {
            Value::Table { members, .. } => members.iter().for_each(|it| it.node.hide(secrets)),
            Value::List(list) => list.iter().for_each(|it| it.hide(secrets)),
            Value::Text(_) | Value::Other => secrets.push(self.range.clone()),
        }
    }

    /// Returns the text; `None` if it is none.
    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Member {
    fn range(&self) -> Range<usize> {
        self.start..self.node.range.end.max(self.start)
    }
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
