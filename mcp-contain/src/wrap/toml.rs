//! Servers in TOML (Codex). Pure.

use std::ops::Range;

use toml_edit::{Document, Item, TableLike, Value};

use crate::show::text::printable;

use super::entry::{Args, Command, Entry, Skip, Text};
use super::format::{self, Table};

/// The servers in these tables of the text.
///
/// # Errors
///
/// It is no TOML: what is wrong with it, and where.
pub(super) fn entries(text: &str, tables: &[Table]) -> Result<Vec<Entry>, String> {
    let document = Document::parse(text).map_err(|error| {
        // Its own text shows the line, which may hold a secret.
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("line {line}: {}", printable(error.message()))
    })?;
    let mut found = Vec::new();
    for table in tables {
        find(
            text,
            document.as_table(),
            table,
            &mut Vec::new(),
            &mut found,
        );
    }
    Ok(found)
}

fn find(
    text: &str,
    table: &dyn TableLike,
    keys: &[&str],
    path: &mut Vec<String>,
    found: &mut Vec<Entry>,
) {
    for (name, item) in table.iter() {
        let Some(inner) = item.as_table_like() else {
            continue;
        };
        path.push(name.to_owned());
        match keys {
            [] => found.push(entry(text, item, inner, path.clone())),
            [key, rest @ ..] if *key == "*" || *key == name => find(text, inner, rest, path, found),
            _ => {}
        }
        path.pop();
    }
}

fn entry(text: &str, item: &Item, server: &dyn TableLike, path: Vec<String>) -> Entry {
    let mut secrets = Vec::new();
    for (key, value) in server.iter() {
        if !matches!(key, "command" | "args") {
            hide(value, &mut secrets);
        }
    }
    let command = command(text, item, server);
    Entry {
        range: lines(text, item, &command),
        path,
        occurrence: 0,
        command,
        secrets,
    }
}

/// Everything that is written there, but for its keys.
fn hide(item: &Item, secrets: &mut Vec<Range<usize>>) {
    match item.as_table_like() {
        Some(table) => table.iter().for_each(|(_, value)| hide(value, secrets)),
        None => secrets.extend(item.span()),
    }
}

/// Text that is shown of it: its own, and that of the keys that matter.
fn lines(text: &str, item: &Item, command: &Result<Command, Skip>) -> Range<usize> {
    let mut spans: Vec<Range<usize>> = item.span().into_iter().collect();
    if let Ok(Command { program, args }) = command {
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

fn command(text: &str, item: &Item, server: &dyn TableLike) -> Result<Command, Skip> {
    let Some((key, program)) = server.get_key_value("command") else {
        let remote = format::URL_KEYS
            .into_iter()
            .any(|key| server.contains_key(key));
        return Err(if remote {
            Skip::Remote
        } else {
            Skip::NoCommand
        });
    };
    let (Some(value), Some(range)) = (program.as_str(), program.span()) else {
        return Err(format::no_text("command"));
    };
    let key = key.span().ok_or_else(unplaced)?;
    let is_inline = item.as_inline_table().is_some();
    Ok(Command {
        args: args(text, server, is_inline, key.start, range.end)?,
        program: Text {
            value: Some(value.to_owned()),
            range,
        },
    })
}

fn args(
    text: &str,
    server: &dyn TableLike,
    is_inline: bool,
    key: usize,
    end: usize,
) -> Result<Args, Skip> {
    let Some((args_key, item)) = server.get_key_value("args") else {
        return missing(text, is_inline, key, end);
    };
    let (Some(list), Some(range)) = (item.as_array(), item.span()) else {
        return Err(format::no_list("args"));
    };
    let element = |value: &Value| {
        let value_text = value.as_str().map(str::to_owned);
        let range = value.span()?;
        Some(Text {
            value: value_text,
            range,
        })
    };
    let elements = list.iter().map(element).collect::<Option<_>>();
    let start = args_key.span().ok_or_else(unplaced)?.start;
    let removal = match is_inline {
        true => (start > end && text[end..start].trim() == ",").then_some(end..range.end),
        false => own_line(text, start, range.end),
    };
    Ok(Args::List {
        elements: elements.ok_or_else(unplaced)?,
        range,
        removal,
    })
}

/// Place of a key that there is not yet: beside the command in `{ }`, else on a line above it,
/// which has the same beginning (`mcp_servers.NAME.` or white space).
fn missing(text: &str, is_inline: bool, key: usize, end: usize) -> Result<Args, Skip> {
    if is_inline {
        return Ok(Args::Missing {
            at: end,
            before: ", args = ".to_owned(),
            after: String::new(),
        });
    }
    let at = line_start(text, key);
    let beginning = &text[at..key];
    if beginning.contains(['{', '#']) {
        return Err(unplaced());
    }
    Ok(Args::Missing {
        at,
        before: format!("{beginning}args = "),
        after: format::line_end(text).to_owned(),
    })
}

/// The line of a key, if there is nothing else on it.
fn own_line(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let rest = text[end..].find('\n')?;
    let is_alone = text[end..end + rest].trim().is_empty();
    is_alone.then(|| line_start(text, start)..end + rest + 1)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

fn unplaced() -> Skip {
    Skip::Unclear("is written in a way that this program does not change".to_owned())
}
