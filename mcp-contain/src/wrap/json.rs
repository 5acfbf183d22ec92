//! Servers in JSON, with comments and trailing commas (VS Code, Zed) or in JSON5 (OpenClaw). Pure.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::entry::{Args, Command, Entry, Skip, Text};
use super::format::{self, Table};

/// The servers in these tables of the text.
///
/// # Errors
///
/// It is no JSON: what is wrong with it, and where.
pub(super) fn entries(text: &str, tables: &[Table]) -> Result<Vec<Entry>, String> {
    let options = ParseOptions {
        // No host takes a file in which they are missing.
        allow_missing_commas: false,
        ..ParseOptions::default()
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
    let parsed = parsed.map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    if let Some(Value::Object(root)) = &parsed.value {
        for table in tables {
            find(text, root, table, &mut Vec::new(), &mut found);
        }
    }
    Ok(found)
}

/// Follows the keys down to the table of servers. A key that is there twice is followed twice.
fn find(
    text: &str,
    object: &Object<'_>,
    keys: &[&str],
    path: &mut Vec<String>,
    found: &mut Vec<Entry>,
) {
    for property in &object.properties {
        let name = property.name.as_str();
        let Value::Object(inner) = &property.value else {
            continue;
        };
        path.push(name.to_owned());
        match keys {
            [] => found.push(entry(text, property, inner, path.clone())),
            [key, rest @ ..] if *key == "*" || *key == name => find(text, inner, rest, path, found),
            _ => {}
        }
        path.pop();
    }
}

fn entry(text: &str, property: &ObjectProp<'_>, server: &Object<'_>, path: Vec<String>) -> Entry {
    let mut secrets = Vec::new();
    for property in &server.properties {
        match (property.name.as_str(), &property.value) {
            ("command" | "args", Value::StringLit(_) | Value::Array(_)) => {}
            // Zed's older form: the command is a table of its own.
            ("command", Value::Object(inner)) => {
                let others = inner.properties.iter();
                let others = others.filter(|it| !matches!(it.name.as_str(), "path" | "args"));
                others.for_each(|it| hide(&it.value, &mut secrets));
            }
            (_, value) => hide(value, &mut secrets),
        }
    }
    Entry {
        path,
        occurrence: 0,
        range: range(property),
        command: command(text, server),
        secrets,
    }
}

/// Everything that is written there, but for its keys.
fn hide(value: &Value<'_>, secrets: &mut Vec<Range<usize>>) {
    match value {
        Value::Object(object) => object
            .properties
            .iter()
            .for_each(|it| hide(&it.value, secrets)),
        Value::Array(list) => list.elements.iter().for_each(|it| hide(it, secrets)),
        scalar => secrets.push(range(scalar)),
    }
}

fn command(text: &str, server: &Object<'_>) -> Result<Command, Skip> {
    let has = |key| all(server, key).next().is_some();
    let Some(property) = only(server, "command")? else {
        let remote = format::URL_KEYS.into_iter().any(has);
        return Err(if remote {
            Skip::Remote
        } else {
            Skip::NoCommand
        });
    };
    match &property.value {
        Value::StringLit(program) => Ok(Command {
            program: Text {
                value: Some(program.value.clone().into_owned()),
                range: range(program),
            },
            args: args(text, server, property)?,
        }),
        // Zed's older form: the command is a table of its own.
        Value::Object(inner) => match only(inner, "path")? {
            Some(path) => match &path.value {
                Value::StringLit(program) => Ok(Command {
                    program: Text {
                        value: Some(program.value.clone().into_owned()),
                        range: range(program),
                    },
                    args: args(text, inner, path)?,
                }),
                _ => Err(format::no_text("path")),
            },
            None => Err(Skip::NoCommand),
        },
        _ => Err(format::no_text("command")),
    }
}

fn args(text: &str, server: &Object<'_>, command: &ObjectProp<'_>) -> Result<Args, Skip> {
    let end = range(command).end;
    let Some(property) = only(server, "args")? else {
        let start = range(command).start;
        let separator = match format::indentation(text, start) {
            Some(indentation) => format!("{}{indentation}", format::line_end(text)),
            None => " ".to_owned(),
        };
        return Ok(Args::Missing {
            at: end,
            before: format!(",{separator}\"args\": "),
            after: String::new(),
        });
    };
    let Value::Array(list) = &property.value else {
        return Err(format::no_list("args"));
    };
    let elements = list.elements.iter().map(|element| Text {
        value: element
            .as_string_lit()
            .map(|text| text.value.clone().into_owned()),
        range: range(element),
    });
    let key = range(property).start;
    let follows = key > end && text[end..key].trim() == ",";
    Ok(Args::List {
        range: range(list),
        elements: elements.collect(),
        removal: follows.then(|| end..range(property).end),
    })
}

fn all<'a, 'b>(
    object: &'b Object<'a>,
    key: &'static str,
) -> impl Iterator<Item = &'b ObjectProp<'a>> {
    object
        .properties
        .iter()
        .filter(move |property| property.name.as_str() == key)
}

/// Nobody knows which of two counts: hosts differ.
fn only<'a, 'b>(
    object: &'b Object<'a>,
    key: &'static str,
) -> Result<Option<&'b ObjectProp<'a>>, Skip> {
    let mut found = all(object, key);
    let first = found.next();
    match found.next() {
        None => Ok(first),
        Some(_) => Err(Skip::Unclear(format!("has `{key}` twice"))),
    }
}

fn range(node: &impl Ranged) -> Range<usize> {
    let range = node.range();
    range.start..range.end
}
