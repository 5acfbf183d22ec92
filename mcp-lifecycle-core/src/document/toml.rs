//! Parses TOML (Codex).

use serde_json::Value as Scalar;
use toml_edit::{Document, Item, Key, TableLike};

use super::{Member, Misfit, Node, Value};

pub(super) fn parse(text: &str) -> Result<Node, Misfit> {
    let document = Document::parse(text).map_err(|error| {
        // `Display` quotes the line.
        Misfit::new(error.span().map_or(0, |span| span.start), &error.message())
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
        Item::None => Value::Other(Scalar::Null),
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
            toml_edit::Value::Integer(number) => Value::Other((*number.value()).into()),
            toml_edit::Value::Float(number) => Value::Other((*number.value()).into()),
            toml_edit::Value::Boolean(value) => Value::Other((*value.value()).into()),
            toml_edit::Value::Datetime(time) => Value::Other(time.value().to_string().into()),
        },
    }
}
