//! Parses TOML (Codex). Pure.

use toml_edit::{Document, Item, Key, TableLike};

use super::format::{Member, Node, Value};
use crate::show::text::one_line;

pub(super) fn parse(text: &str) -> Result<Node, String> {
    let document = Document::parse(text).map_err(|error| {
        // The parser's own message quotes the line, which may hold a secret.
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("line {line}: {}", one_line(error.message()))
    })?;
    Ok(Node {
        value: table(document.as_table(), false),
        range: 0..0,
    })
}

fn table(table: &dyn TableLike, is_braced: bool) -> Value {
    let member = |(name, item): (&str, &Item)| {
        let node = node(item);
        let key = table.key(name).and_then(Key::span);
        Member {
            name: name.to_owned(),
            start: key.map_or(node.range.start, |key| key.start),
            node,
        }
    };
    Value::Table {
        members: table.iter().map(member).collect(),
        is_braced,
    }
}

fn node(item: &Item) -> Node {
    let value = match item {
        Item::Value(value) => return of_value(value),
        Item::Table(inner) => table(inner, false),
        Item::ArrayOfTables(tables) => {
            let node = |inner: &toml_edit::Table| Node {
                value: table(inner, false),
                range: 0..0,
            };
            Value::List(tables.iter().map(node).collect())
        }
        Item::None => Value::Other,
    };
    let range = item.span().unwrap_or_default();
    Node { value, range }
}

fn of_value(value: &toml_edit::Value) -> Node {
    Node {
        range: value.span().unwrap_or_default(),
        value: match value {
            toml_edit::Value::InlineTable(inner) => table(inner, true),
            toml_edit::Value::Array(list) => Value::List(list.iter().map(of_value).collect()),
            toml_edit::Value::String(text) => Value::Text(text.value().clone()),
            _ => Value::Other,
        },
    }
}
